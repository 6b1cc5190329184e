"""`klamm env`."""
