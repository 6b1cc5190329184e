"""The metrics page, and the figures on it."""
