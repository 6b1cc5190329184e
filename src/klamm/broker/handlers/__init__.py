"""One file for each API: what the broker answers to its requests."""
