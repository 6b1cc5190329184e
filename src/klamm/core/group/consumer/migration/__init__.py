"""Members of the classic protocol in a consumer group, and the change from one kind to the other."""
