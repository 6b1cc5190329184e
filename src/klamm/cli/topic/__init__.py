"""`klamm topic`."""
