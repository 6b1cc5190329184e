"""Copies partitions from their leaders, and follows what the followers of this broker have."""
