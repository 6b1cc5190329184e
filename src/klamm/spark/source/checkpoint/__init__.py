"""What the source reads and writes in the checkpoints of queries."""
