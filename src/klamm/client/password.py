"""A secret that no repr, log or error shows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Password"]


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A password, a token or a private key; only `value` shows it, as in Kafka's type of the same name."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"
