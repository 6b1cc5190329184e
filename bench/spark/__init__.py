"""Programs that run Spark for a row: each a process of its own that prints its figures as one line of JSON."""
