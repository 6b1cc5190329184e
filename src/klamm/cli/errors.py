"""How a command ends with an exit status of its own."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["UsageError"]


class UsageError(KlammError):
    """Options that don't go together: exit status 2, as for options that argparse refuses."""
