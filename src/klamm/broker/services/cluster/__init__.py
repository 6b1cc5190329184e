"""A broker among others: its registration, the election of leaders, and the data that belong to other brokers."""
