"""Warns of a broker of a cluster whose clients share a listener with the other brokers.

There is no authentication of clients, so the requests between brokers are accepted from every client of that listener
(ADR 41). Kafka without an authorizer accepts them too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig

__all__ = ["warn_of_shared_listener"]

_logger = logging.getLogger(__name__)


def warn_of_shared_listener(config: BrokerConfig) -> None:
    """Logs a warning with what to do, if the broker's only listener can be reached from other machines."""
    if len(config.listeners) > 1 or config.listeners[0].is_loopback:
        return
    _logger.warning(
        "clients and brokers share the listener %s: a client that reaches it may send the requests that brokers send "
        "each other, and end the transactions of other clients (WriteTxnMarkers, AddPartitionsToTxn). If you do not "
        "trust all clients, give the brokers a listener of their own, which clients do not reach, and name it with "
        "inter.broker.listener.name",
        config.listeners[0],
    )
