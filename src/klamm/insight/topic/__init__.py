"""Partitions, settings and the skew of topics."""
