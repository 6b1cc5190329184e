"""What is wrong with a setting, said in full: which key, which value, from where, and what would be allowed."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ConfigurationError"]


class ConfigurationError(KlammError):
    """A setting that a broker can't be started with. The text names key, value, source and what is allowed."""
