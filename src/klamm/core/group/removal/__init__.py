"""What removes groups and offsets: deletion, expiry, deleted topics."""
