"""What groups, topics, transactions and replicas look like, and why. Prints nothing."""
