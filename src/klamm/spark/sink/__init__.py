"""The sink: batch writes and streaming queries that write to topics."""
