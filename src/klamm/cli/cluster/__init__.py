"""`klamm cluster`."""
