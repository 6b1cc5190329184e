"""Faults of a cluster: kill -9 of brokers by their roles, pauses beyond the session, cuts between brokers and to etcd,
lost and damaged files of a replica, and faults of etcd itself."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from random import Random

from tests.checker.cluster_brokers import ClusterBrokers
from tests.checker.workload.roles import PARTITIONS, RECORDS
from tests.support.links import KINDS

__all__ = ["ClusterFaults"]

_OFFSETS = "__consumer_offsets"
_TRANSACTIONS = "__transaction_state"


class ClusterFaults:
    """The faults of brokers and of etcd. All brokers are live after each fault."""

    def __init__(self, cluster: ClusterBrokers, random: Random) -> None:
        self._cluster = cluster
        self._random = random

    def by_name(self) -> Mapping[str, Callable[[], None]]:
        """Returns the faults by their names."""
        faults = {
            "kill a leader": lambda: self._kill(self._leader(RECORDS)),
            "kill a follower": lambda: self._kill(self._other_than(self._leader(RECORDS))),
            "kill a group coordinator": lambda: self._kill(self._leader(_OFFSETS)),
            "kill a transaction coordinator": lambda: self._kill(self._leader(_TRANSACTIONS)),
            "kill the controller": lambda: self._kill(self._cluster.controller()),
            "kill two brokers": lambda: self._kill(*self._random.sample(self._cluster.numbers, 2)),
            "kill all brokers": lambda: self._kill(*self._cluster.numbers),
            "pause a broker": lambda: self._pause(self._random.uniform(0.1, self._cluster.session_s / 2)),
            "pause a broker beyond its session": lambda: self._pause(
                self._cluster.session_s + self._random.uniform(1, 4)
            ),
            "cut a link": self._cut_link,
            "cut a broker off from the others": self._cut_off,
            "cut off a leader and kill it": self._cut_off_and_kill,
            "cut a broker from etcd": self._cut_from_etcd,
            "lose etcd's answers to a broker": self._lose_answers,
            "kill etcd's leader": self._kill_leader_of_etcd,
            "pause etcd": self._pause_etcd,
            "rolling restart": self._restart,
            "wipe a replica": self._wipe,
            "damage a replica": self._damage,
        }
        if len(self._cluster.etcd.members) > 1:
            faults["take etcd's majority"] = self._take_majority
        return faults

    def _leader(self, topic: str) -> int:
        return self._cluster.leader(topic, self._random.randrange(PARTITIONS.get(topic, 3)))

    def _other_than(self, broker: int) -> int:
        return self._random.choice([each for each in self._cluster.numbers if each != broker])

    def _kill(self, *brokers: int) -> None:
        """Kills brokers, which are away for a moment or for longer than a session."""
        with self._cluster.down(*brokers):
            time.sleep(self._random.choice((0.0, 1.0, self._cluster.session_s + 2.0)) * self._random.random())
        if self._random.random() < 0.5:
            self._cluster.wait_until_in_sync(*PARTITIONS)

    def _pause(self, seconds: float) -> None:
        self._cluster.pause(self._random.choice(self._cluster.numbers), seconds)
        self._cluster.wait_until_up()

    def _cut_link(self) -> None:
        """Cuts the network from one broker to another, or between both, for some time."""
        source, target = self._random.sample(self._cluster.numbers, 2)
        kind = self._random.choice(KINDS)
        self._cluster.links.cut(source, target, kind)
        if self._random.random() < 0.5:
            self._cluster.links.cut(target, source, kind)
        time.sleep(self._random.uniform(0.2, 6))
        self._cluster.links.mend()

    def _cut_off(self) -> None:
        """Cuts all links of a leader, which still reaches etcd and is reached by clients."""
        self._cut_all_links(self._leader(RECORDS))
        time.sleep(self._random.uniform(1, 8))
        self._cluster.links.mend()

    def _cut_off_and_kill(self) -> None:
        """Kills a leader that has records which no follower has; they must not be acknowledged. It comes back when
        another broker leads: otherwise it would still have them, and lead again."""
        # Brokers that acknowledge correctly refuse writes if too few replicas are in sync.
        self._cluster.wait_until_in_sync(RECORDS)
        broker = self._leader(RECORDS)
        self._cut_all_links(broker)
        time.sleep(self._random.uniform(1.5, 3))
        with self._cluster.down(broker):
            # A link that holds answers delivers them when it is mended.
            self._cluster.wait_until_not_led_by(broker, RECORDS)
            self._cluster.links.mend()

    def _cut_all_links(self, broker: int) -> None:
        kind = self._random.choice(KINDS)
        for other in self._cluster.numbers:
            if other != broker:
                self._cluster.links.cut(broker, other, kind)
                self._cluster.links.cut(other, broker, kind)

    def _cut_from_etcd(self) -> None:
        proxies = self._cluster.etcd_proxies[self._leader(RECORDS)]
        for proxy in proxies:
            proxy.cut()
        self._wait_around_session()
        for proxy in proxies:
            proxy.heal()
        self._cluster.wait_until_up()

    def _lose_answers(self) -> None:
        """Changes of metadata happen, and the broker that asks for them is not told."""
        proxies = self._cluster.etcd_proxies[self._leader(RECORDS)]
        for proxy in proxies:
            proxy.lose_answers()
        self._wait_around_session()
        for proxy in proxies:
            proxy.heal()
        self._cluster.wait_until_up()

    def _wait_around_session(self) -> None:
        time.sleep(self._random.uniform(0.5, self._cluster.session_s + 3))

    def _kill_leader_of_etcd(self) -> None:
        etcd = self._cluster.etcd
        member = etcd.leader()
        member.kill()
        time.sleep(self._random.uniform(0.2, 3))
        etcd.launch(member)
        etcd.wait()
        self._cluster.wait_until_up()

    def _take_majority(self) -> None:
        etcd = self._cluster.etcd
        members = self._random.sample(etcd.members, len(etcd.members) // 2 + 1)
        for member in members:
            member.kill()
        self._wait_around_session()
        for member in members:
            etcd.launch(member)
        etcd.wait()
        self._cluster.wait_until_up()

    def _pause_etcd(self) -> None:
        members = self._cluster.etcd.members
        for member in members:
            member.pause()
        self._wait_around_session()
        for member in members:
            member.resume()
        self._cluster.wait_until_up()

    def _wipe(self) -> None:
        """Kills a broker, and removes all files of one of its partitions, or of all. The other replicas have them."""
        self._cluster.wait_until_in_sync(*PARTITIONS)
        broker = self._random.choice(self._cluster.numbers)
        with self._cluster.down(broker):
            folders = sorted(self._cluster.data_of(broker).glob(f"{RECORDS}-*"))
            for folder in folders if self._random.random() < 0.3 else [self._random.choice(folders)]:
                shutil.rmtree(folder)
        self._cluster.wait_until_in_sync(RECORDS)

    def _damage(self) -> None:
        """Cuts the newest segment of a partition in half while its broker is stopped. The broker must notice it: after
        a clean stop all records are on the disk."""
        self._cluster.wait_until_in_sync(*PARTITIONS)
        broker = self._random.choice(self._cluster.numbers)
        with self._cluster.down(broker, cleanly=True):
            folder = self._random.choice(sorted(self._cluster.data_of(broker).glob(f"{RECORDS}-*")))
            newest = max(folder.glob("*.log"))
            os.truncate(newest, newest.stat().st_size // 2)
        self._cluster.wait_until_in_sync(RECORDS)

    def _restart(self) -> None:
        """Restarts one broker after the other with SIGTERM, each when the one before is in sync again."""
        for broker in self._cluster.numbers:
            with self._cluster.down(broker, cleanly=True):
                pass
            self._cluster.wait_until_in_sync(*PARTITIONS)
