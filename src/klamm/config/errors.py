"""Errors in settings, whose messages name the key, the value, its source and the allowed values."""

from __future__ import annotations

from typing import Self

from klamm.errors import KlammError

__all__ = ["ConfigurationError", "InvalidValue"]


class ConfigurationError(KlammError):
    """A setting with which a broker can't be started. The message names key, value, source and allowed values."""


class InvalidValue(KlammError):
    """A value that is invalid for its key; `str()` is the message of Kafka's `ConfigException`."""

    def __init__(self, name: str, value: str | None, reason: str) -> None:
        shown = "null" if value is None else value
        super().__init__(f"Invalid value {shown} for configuration {name}: {reason}")
        self.reason = reason

    @classmethod
    def saying(cls, message: str) -> Self:
        """Returns an error with exactly this message, for cases in which Kafka's message has another form."""
        error = cls("", "", message)
        error.args = (message,)
        return error
