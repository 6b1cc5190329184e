"""The version of klamm; no other file defines it."""

__version__ = "0.1.0"
