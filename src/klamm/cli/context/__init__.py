"""`klamm context`."""
