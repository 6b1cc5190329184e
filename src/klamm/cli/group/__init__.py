"""`klamm group`."""
