"""Who leads and who is in sync: elections, changes of the in-sync replicas, reassignments."""
