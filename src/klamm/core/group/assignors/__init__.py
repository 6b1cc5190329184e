"""How the partitions of a group are shared out among its members."""
