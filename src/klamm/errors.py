"""The base class of all errors that klamm raises deliberately."""

from __future__ import annotations

__all__ = ["KlammError"]


class KlammError(Exception):
    """Base of all errors that klamm raises deliberately; its text says what to do next."""
