"""A secret that is used but never shown: not in a repr, a log, or an error."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Password"]


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A password, a token or a private key; only `value` tells it. Kafka's type of the same name does so, too."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"
