"""All file access of the log."""
