"""`klamm pipeline`."""
