"""A year of flights through a topic, two groups and a Spark query: what `make demo` shows."""
