"""Programs that run Spark for a row: each is a separate process that prints its figures as one line of JSON."""
