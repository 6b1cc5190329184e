"""What the coordinators of groups and of transactions have in common: the contract of a shard."""
