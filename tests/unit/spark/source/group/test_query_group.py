"""Tests the state of a query's group before the query joins a group."""

from __future__ import annotations

import socket

import pytest

from klamm.spark.source.group.query_group import QueryGroup
from klamm.spark.source.options.options import SourceOptions

_READS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}


@pytest.mark.parametrize("more", [{}, {"kafka.group.id": "g"}], ids=["without a group", "commits to one"])
def test_only_who_waits_for_its_group_keeps_sockets_of_others(more: dict[str, str]) -> None:
    """A query that is no member keeps no copies of sockets; a copy would keep a connection open after its owner
    closed it."""
    ours, theirs = socket.socketpair()
    with theirs:
        group = QueryGroup(SourceOptions.for_stream(_READS | more))
        ours.close()
        theirs.settimeout(10)

        assert theirs.recv(1) == b""
        group.stop()
