"""The configuration keys: type, default, range, and what klamm does with each."""
