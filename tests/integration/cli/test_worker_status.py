"""Tests of `klamm worker status`: what workers say in their commits."""

from __future__ import annotations

import json
import threading

from tests.integration.cli.conftest import Command
from tests.support.running_worker import create_topic, produce, running, wait_until

from klamm.testing import Broker
from klamm.worker import Record, Worker


def test_status_shows_what_holds_a_commit_up(klamm: Command, broker: Broker) -> None:
    """The row names the records in flight, and the key that has the most; a sentence says how long the commit waits."""
    servers = broker.bootstrap_servers
    create_topic(servers, "bills", 2)
    produce(servers, "bills", [(b"slow", b"1"), (b"slow", b"2"), (b"quick", b"3"), (b"slow", b"4")], partition=0)
    produce(servers, "bills", [(b"quick", b"1")], partition=1)
    app = Worker(servers, group="billing", commit_every=0.1)
    release = threading.Event()

    @app.handler("bills", concurrency=2)
    def bill(record: Record) -> None:
        if record.key == b"slow":
            release.wait(60)

    def rows() -> list[dict[str, object]]:
        finished = klamm("worker", "status", "billing", "-o", "json")
        if finished.status:
            return []
        found: list[dict[str, object]] = json.loads(finished.stdout)
        return found

    with running(app):
        wait_until(lambda: len(found := rows()) == 2 and found[0]["finished_beyond"] and found[1]["committed"] == 1)
        held, free = rows()
        text = klamm("worker", "status", "billing").stdout
        release.set()
    after = klamm("worker", "status", "billing").stdout
    assert held.pop("held_ms") is not None
    assert held == {
        "topic": "bills",
        "partition": 0,
        "committed": 0,
        "high_watermark": 4,
        "lag": 4,
        "in_flight": 3,
        "finished_beyond": 1,
        "attempts": 1,
        "hot_key": "slow",
        "hot_records": 3,
    }
    assert (free["committed"], free["in_flight"], free["held_ms"], free["hot_key"]) == (1, 0, None, None)
    assert "3 records in flight in 2 partitions" in text
    assert "bills-0: offset 0 has held up the commit for" in text
    assert "the key slow has 3 of 3 records in flight" in text
    ended = "the group billing has no members: no worker handles records now"
    assert ended not in text
    assert ended in after
    assert "held up" not in after


def test_status_of_a_group_without_commits(klamm: Command) -> None:
    """The command fails with a sentence."""
    finished = klamm("worker", "status", "nothing-here")
    assert finished.status == 1
    assert "the group nothing-here has committed nothing; `klamm group list` shows the groups" in finished.stderr
