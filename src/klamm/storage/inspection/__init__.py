"""Verifies and repairs a broker's files while it does not run."""
