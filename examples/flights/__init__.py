"""A year of flights through a topic, a group and a Spark query into a second topic: what `make demo` shows."""
