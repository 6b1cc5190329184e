"""Topics, partitions, leaders and configuration: an immutable image over a transactional store."""
