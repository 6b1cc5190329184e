"""Kafka 4.3.0's messages, one module each, written by tools/generate_schema.py."""
