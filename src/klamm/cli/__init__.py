"""The command `klamm`: parses arguments and prints results."""
