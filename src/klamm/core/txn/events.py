"""Events of transactions, for the log; no decision depends on them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TransactionRemark"]


class TransactionRemark(NamedTuple):
    """A remark about a transaction, for operators."""

    transactional_id: str
    text: str
    is_warning: bool = False
