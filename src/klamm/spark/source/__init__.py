"""The source `format("klamm")`: reads topics for Spark, and tracks the progress of queries."""
