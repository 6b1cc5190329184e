"""What runs in Spark's tasks: reads ranges of partitions, and builds Arrow columns from the bytes."""
