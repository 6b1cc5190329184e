"""What happened to transactions, for whoever wants to know; nothing depends on it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TransactionRemark"]


class TransactionRemark(NamedTuple):
    """Something that an operator may look for."""

    transactional_id: str
    text: str
    is_warning: bool = False
