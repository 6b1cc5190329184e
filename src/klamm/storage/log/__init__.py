"""The log of one partition, in parts: append, read, follow, retain, sync."""
