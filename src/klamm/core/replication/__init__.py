"""The rules of replication: the high watermark, the in-sync replicas, what a follower fetches."""
