"""The longest step of klamm's event loop under loads that need much work at once.

During a step the broker serves no other client. A step is measured by the processor time of the loop's thread
(`loop_steps.py`), so neither other processes nor klamm's own threads count; Apache Kafka has no such loop. Clients can
cause every load. The load of many groups runs once with 50 partitions of `__consumer_offsets`, and once with a single
one, where nothing is spread. One request of each kind comes before the measurement. The last two figures tell how much
of a longest step may be the machine's: the same work, repeated (`fixed_work.py`), at its median and at its longest.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.fixed_work import measure_fixed_work
from bench.hostile_loads import (
    create_hostile_topics,
    look_up_large_batches,
    produce_large_batches,
    write_for_the_cleaner,
)
from bench.loop_loads import (
    beat,
    commit,
    create_topics,
    delete_group,
    delete_topic,
    describe_groups,
    initialize_producers,
    join,
    list_groups,
    list_transactions,
    regular_expressions,
    subscribe_by,
)
from bench.measure import cpu_seconds
from bench.peers import Klamm, Peer, PeerUnavailable, RunningPeer
from bench.wire import Connection, wait_for_coordinator
from bench.workload import Figure, LifeWorkload, Load

__all__ = ["WORKLOAD"]

_LIMIT_MS = 10
_GROUPS = 10_000
_TOPICS = 10_000
_MEMBERS = 2_000
_PARTITIONS_OF_A_TOPIC = 10_000
_IDLE_SHARE = 0.1
_TRANSACTIONAL_IDS = 10_000
_DESCRIBED = 1_000
_EPHEMERAL = "ephemeral-"
_RETENTION_MS = 15_000
_CONFIG = {
    "klamm.group.ephemeral.patterns": f"{_EPHEMERAL}*",
    "klamm.group.ephemeral.retention.ms": str(_RETENTION_MS),
    "transaction.state.log.num.partitions": "1",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
    "log.cleaner.backoff.ms": "1000",
}
"""Long sessions, since all other members' heartbeats come between two of one member; short intervals for cleanups."""
_NOT_A_LOOP = "it has no event loop"


class _Steps:
    """Measures several loads on one broker."""

    def __init__(self, running: RunningPeer, report: Path) -> None:
        self._process_id = running.process_id
        self._report = report
        self.longest_ms: dict[str, float] = {}

    @contextmanager
    def of(self, load: str) -> Iterator[None]:
        """Measures until the broker is idle again after the load."""
        self._read()
        yield
        self._wait_until_idle()
        measured = self._read()
        self.longest_ms[load] = max(self.longest_ms.get(load, 0.0), measured["longest_ms"])

    def _wait_until_idle(self) -> None:
        quiet = 0
        while quiet < 3:
            before = cpu_seconds(self._process_id)
            time.sleep(0.4)
            quiet = quiet + 1 if cpu_seconds(self._process_id) - before < 0.4 * _IDLE_SHARE else 0

    def _read(self) -> Mapping[str, float]:
        """Returns the measurements since the last call."""
        self._report.unlink(missing_ok=True)
        os.kill(self._process_id, signal.SIGUSR1)
        deadline = time.monotonic() + 60
        while not self._report.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("klamm did not say within a minute how long its steps were")
            time.sleep(0.01)
        figures: Mapping[str, float] = json.loads(self._report.read_text(encoding="utf-8"))
        return figures


def _warm_up(address: str) -> None:
    """Sends one of each request, and gives the history of groups time to begin."""
    create_topics(address, ["first"], 1)
    commit(address, [("first", "first")], 1)
    beat(address, join(address, [("first", "first", "first")]))
    subscribe_by(address, ["first"])
    time.sleep(1)
    create_topics(address, ["gone"], 1)
    commit(address, [("gone", "gone")], 1)
    delete_group(address, "gone")
    delete_topic(address, "gone")
    time.sleep(1)


def _load_many_groups(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures 10,000 groups of one member: the members join and send heartbeats, then their topic is deleted."""
    groups = scale(_GROUPS)
    create_topics(address, ["read-by-many"], 6)
    commit(address, ((f"group-{each}", "read-by-many") for each in range(groups)), 6)
    with steps.of("groups"):
        heartbeats = join(address, ((f"group-{each}", f"member-{each}", "read-by-many") for each in range(groups)))
        beat(address, heartbeats, rounds=3)
    with steps.of("topic_deleted"):
        delete_topic(address, "read-by-many")
        beat(address, heartbeats)


def _load_lists(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures lists of 10,000 groups and 10,000 transactional ids, and descriptions of 1,000 groups in one request."""
    groups = scale(_GROUPS)
    create_topics(address, ["listed"], 1)
    join(address, ((f"listed-{each}", f"member-{each}", "listed") for each in range(groups)))
    with steps.of("groups_listed"):
        listed = list_groups(address)
    if len(listed) < groups:
        raise RuntimeError(f"{len(listed)} groups were listed, and there are {groups}")
    with steps.of("groups_described"):
        describe_groups(address, [f"listed-{each}" for each in range(scale(_DESCRIBED))])
    ids = scale(_TRANSACTIONAL_IDS)
    with steps.of("producers_initialized"):
        initialize_producers(address, (f"transactional-{each}" for each in range(ids)))
    with steps.of("transactions_listed"):
        listed = list_transactions(address)
    if len(listed) < ids:
        raise RuntimeError(f"{len(listed)} transactional ids were listed, and there are {ids}")


def _load_expiry(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures the expiry of 10,000 groups with six offsets each, and of one group with 10,000."""
    groups, partitions = scale(_GROUPS), scale(_PARTITIONS_OF_A_TOPIC)
    create_topics(address, ["expiring"], 6)
    create_topics(address, ["expiring-for-one"], partitions)
    with steps.of("expiry"):
        commit(address, ((f"{_EPHEMERAL}{each}", "expiring") for each in range(groups)), 6)
        commit(address, [(f"{_EPHEMERAL}large", "expiring-for-one")], partitions)
        time.sleep(2.5 * _RETENTION_MS / 1000)  # The broker looks for expired groups once in that time.
    left = [group_id for group_id in list_groups(address) if group_id.startswith(_EPHEMERAL)]
    if left:
        raise RuntimeError(f"{len(left)} groups have not expired")


def _load_many_topics(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures 10,000 new topics with a group each, then one more topic, twice: the second time results are cached."""
    names = [f"topic-{each}" for each in range(scale(_TOPICS))]
    with steps.of("many_topics_created"):
        create_topics(address, names, 1)
    join(address, ((f"group-of-{name}", f"member-of-{name}", name) for name in names))
    with steps.of("metadata_changed"):
        create_topics(address, ["one-more"], 1)
        create_topics(address, ["yet-another"], 1)


def _load_large_group(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures a group that 2,000 members join at once."""
    members = scale(_MEMBERS)
    create_topics(address, ["read-by-a-large-group"], members)
    with steps.of("large_group"):
        heartbeats = join(
            address, (("large-group", f"member-{each}", "read-by-a-large-group") for each in range(members))
        )
        time.sleep(1)
        beat(address, heartbeats, rounds=2)


def _load_many_partitions(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures a new topic of 10,000 partitions, a group's commit for all of them at once, and the group's deletion."""
    partitions = scale(_PARTITIONS_OF_A_TOPIC)
    with steps.of("large_topic_created"):
        create_topics(address, ["large"], partitions)
    with steps.of("offsets_committed"):
        commit(address, [("deleted", "large")], partitions)
    with steps.of("group_deleted"):
        delete_group(address, "deleted")


def _load_expressions(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures subscriptions by regular expressions that compile slowly."""
    with steps.of("expressions"):
        subscribe_by(address, regular_expressions())


def _load_large_batches(steps: _Steps, address: str, scale: Callable[[int], int]) -> None:
    """Measures batches of some kilobytes that decompress to megabytes: produced, searched for a timestamp, cleaned."""
    create_hostile_topics(address)
    with steps.of("large_batches_produced"):
        produce_large_batches(address)
    with steps.of("large_batches_looked_up"):
        look_up_large_batches(address)
    with steps.of("large_batches_cleaned"):
        write_for_the_cleaner(address)


_LOADS = {
    "50": (_load_many_groups, _load_many_topics),
    "1": (
        _load_expiry,
        _load_lists,
        _load_many_groups,
        _load_large_group,
        _load_expressions,
        _load_many_partitions,
        _load_large_batches,
    ),
}
"""The loads by the number of partitions of `__consumer_offsets`."""


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    if not isinstance(peer, Klamm):
        raise PeerUnavailable(_NOT_A_LOOP)
    longest_ms: dict[str, float] = {}
    for partitions, loads in _LOADS.items():
        own = folder / partitions
        own.mkdir()
        config = {"offsets.topic.num.partitions": partitions, **_CONFIG}
        running = peer.start_with_steps_measured(own, config, own / "steps")
        try:
            with Connection(running.bootstrap_servers) as connection:
                wait_for_coordinator(connection)
            _warm_up(running.bootstrap_servers)
            steps = _Steps(running, own / "steps.json")
            for each in loads:
                each(steps, running.bootstrap_servers, load.scaled)
        finally:
            running.stop()
        for name, value in steps.longest_ms.items():
            longest_ms[name] = max(longest_ms.get(name, 0.0), value)
    fixed_work = measure_fixed_work()
    return {**longest_ms, "fixed_work": fixed_work.median_ms, "fixed_work_longest": fixed_work.longest_ms}


def _figure(key: str, title: str) -> Figure:
    return Figure(key, title, "ms", True, limit=_LIMIT_MS)


WORKLOAD = LifeWorkload(
    name="loop_steps",
    title="Longest step of the event loop",
    figures=(
        _figure("groups", "10,000 groups join and live"),
        _figure("topic_deleted", "a topic that 10,000 groups read is deleted"),
        _figure("many_topics_created", "10,000 topics are created"),
        _figure("metadata_changed", "one more topic next to 10,000, each read by another group"),
        _figure("large_group", "2,000 members join one group"),
        _figure("expressions", "regular expressions made to take long"),
        _figure("large_topic_created", "a topic of 10,000 partitions is created"),
        _figure("offsets_committed", "a group commits 10,000 offsets in one request"),
        _figure("group_deleted", "a group with 10,000 offsets is deleted"),
        _figure("expiry", "10,000 groups with six offsets, and one with 10,000, expire"),
        _figure("groups_listed", "10,000 groups are listed"),
        _figure("groups_described", "1,000 groups are described"),
        _figure("producers_initialized", "10,000 transactional producers begin"),
        _figure("transactions_listed", "10,000 transactional ids are listed"),
        _figure("large_batches_produced", "batches of some kilobytes that hold millions of records are produced"),
        _figure("large_batches_looked_up", "a time is looked for in such batches"),
        _figure("large_batches_cleaned", "such batches are cleaned"),
        Figure("fixed_work", "for comparison, the same Python work repeated for 10 s: median", "ms", True),
        Figure("fixed_work_longest", "for comparison, the same Python work repeated for 10 s: longest", "ms", True),
    ),
    rounds=3,
    without={"kafka": _NOT_A_LOOP, "tansu": _NOT_A_LOOP, "mock": _NOT_A_LOOP},
    measure=_measure,
)
