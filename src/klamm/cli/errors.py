"""The two ways a command ends badly, each with its exit status."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ClusterError", "UsageError"]


class ClusterError(KlammError):
    """The cluster refused, or could not be reached: exit status 1."""


class UsageError(KlammError):
    """Options that don't go together: exit status 2, as for options that argparse refuses."""
