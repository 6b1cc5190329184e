"""What is wrong with a setting, said in full: which key, which value, from where, and what would be allowed."""

from __future__ import annotations

from typing import Self

from klamm.errors import KlammError

__all__ = ["ConfigurationError", "InvalidValue"]


class ConfigurationError(KlammError):
    """A setting that a broker can't be started with. The text names key, value, source and what is allowed."""


class InvalidValue(KlammError):
    """A value that its key does not take; `str()` is the message of Kafka's `ConfigException`."""

    def __init__(self, name: str, value: str | None, reason: str) -> None:
        shown = "null" if value is None else value
        super().__init__(f"Invalid value {shown} for configuration {name}: {reason}")
        self.reason = reason

    @classmethod
    def saying(cls, message: str) -> Self:
        """One with a message of its own, where Kafka's has no common form."""
        error = cls("", "", message)
        error.args = (message,)
        return error
