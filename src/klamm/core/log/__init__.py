"""Judges batches, plans retention and compaction, and tracks open transactions."""
