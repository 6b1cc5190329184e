"""The coordinators of groups and transactions: their ports, topics and history, and their requests to other brokers."""
