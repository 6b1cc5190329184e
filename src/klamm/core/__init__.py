"""Decisions: pure rules without input, output, clock and randomness."""
