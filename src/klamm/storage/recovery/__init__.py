"""What a start of the broker reads and repairs."""
