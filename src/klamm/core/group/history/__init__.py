"""The records of what has happened to groups, and why."""
