"""The partitions of this broker as leader, their reads and the requests that wait for them."""
