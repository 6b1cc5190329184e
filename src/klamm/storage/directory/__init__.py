"""The data directory of a broker: its lock, its marks, its checkpoints and its logs."""
