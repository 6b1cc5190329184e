"""The source `format("klamm")`: what Spark reads from a topic, and how far it has read."""
