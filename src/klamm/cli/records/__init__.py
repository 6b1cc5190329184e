"""`klamm produce` and `klamm consume`."""
