"""How a pipeline runs: its queries, their restarts and their end."""
