"""The root of every error that klamm raises on purpose."""

from __future__ import annotations

__all__ = ["KlammError"]


class KlammError(Exception):
    """Base of all errors that klamm raises on purpose; its text says what to do next."""
