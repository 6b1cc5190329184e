"""The data directories of Apache Kafka, read and written."""
