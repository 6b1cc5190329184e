"""A query's group: commits of its progress, and the membership of the query that owns the group."""
