"""The replicas of a cluster, and plans for where they go."""
