"""`klamm log`."""
