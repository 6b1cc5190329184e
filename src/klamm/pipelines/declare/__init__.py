"""What a pipeline is declared as: values, without Spark and without a cluster."""
