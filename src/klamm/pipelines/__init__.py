"""Pipelines: flows from topics to topics, files and tables, which run on Spark's Structured Streaming."""
