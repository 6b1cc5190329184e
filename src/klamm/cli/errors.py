"""Errors with an exit status of their own."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["UsageError"]


class UsageError(KlammError):
    """Options that can't be combined, or a wrong value: exit status 2, as for options that argparse refuses."""
