"""One world of several brokers: machines that share a metadata store, and clients that use all of them.

Brokers start, stop, are killed and lose power. Partitions move between them, so that leaders and coordinators resign
and load at every moment. The metadata store is slow, forgets sessions, and breaks its watches. Connections break and
stall, between brokers too. No acknowledged record may be lost. At the end there are no more faults, and all clients
finish.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from tests.simulation.brokers.asyncio_loop import ProcessLoop
from tests.simulation.brokers.client_world import ClientWorld
from tests.simulation.brokers.clients.classic_member import ClassicMember
from tests.simulation.brokers.clients.committer import Committer
from tests.simulation.brokers.clients.consumer_member import ConsumerMember
from tests.simulation.brokers.clients.lookups import Lookups
from tests.simulation.brokers.clients.member import GROUP
from tests.simulation.brokers.clients.offset_reader import OffsetReader
from tests.simulation.brokers.clients.producer import Producer
from tests.simulation.brokers.clients.reader import Reader
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.brokers.clients.topics import create_topics
from tests.simulation.brokers.clients.transactional import TransactionalProducer
from tests.simulation.brokers.groups import GroupLedger
from tests.simulation.brokers.machine import Machine, replaced
from tests.simulation.brokers.plan import MEMBER_TIMEOUT_MS, BrokerPlan
from tests.simulation.brokers.surroundings import listening, undisturbed
from tests.simulation.clusters.client import ClusterClient
from tests.simulation.clusters.clients.commit_reader import CommitReader
from tests.simulation.clusters.clients.new_topics import NewTopics, NewTopicsLedger, TopicWatcher
from tests.simulation.clusters.disks import attached
from tests.simulation.clusters.metadata_store import Faults, Session, SharedMetadata
from tests.simulation.clusters.moves import Moves
from tests.simulation.clusters.plan import ClusterPlan, cluster_config, make_cluster_plan
from tests.simulation.clusters.watching import watching
from tests.simulation.logs.device import Device, Strike
from tests.simulation.loop import EventLoop
from tests.simulation.violation import Violation

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.replication.run_mark import PageCache
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.protocol.errors import KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.types import BrokerId, PartitionIndex, TopicPartition
from klamm.storage.directory import run_record

if TYPE_CHECKING:
    from klamm.client.config import Address, ClientConfig
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.metadata_store import MetadataStore
    from klamm.storage.log.log import Log

__all__ = ["ClusterWorld"]

_MEMORY: Final = Path("/dev/shm")
_START_MS: Final = 30_000
"""Longest duration of a start, of a stop, and of a move without faults."""
_CALM_CHANCE: Final = 0.15
_CALM_MOVES: Final = 3
_AWAY_MS: Final = 200
"""Longest time from the end of a broker's process to the next start."""
_LOOK_MS: Final = 7.0
"""How often the world looks whether a partition can go on to its new leader."""


class ClusterWorld(ClientWorld):
    """The world of one seed."""

    has_healed = False
    """Whether the faults are over."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        loop, sizes = EventLoop(seed), Random(f"sizes of {seed}")
        plan, self.cluster = self.make_plans(loop.random, sizes)
        super().__init__(seed, plan, loop, listener, sums=sums)
        self.sizes = sizes
        self.addresses = tuple((f"broker-{number}", 9092) for number in range(1, self.cluster.brokers + 1))
        cluster = self.cluster
        self.faults = Faults(
            latency_ms=cluster.store_latency_ms, lag_ms=cluster.watch_lag_ms, unknown_rate=cluster.unknown_rate
        )
        self.metadata = SharedMetadata(loop, self.faults, cluster.maximum_operations, self.notes.add)
        self.machines: dict[BrokerId, Machine] = {}
        self.offsets_partitions = cluster.internal_partitions
        self.new_topics = NewTopicsLedger()
        self.markers_ms = 1e9 if plan.has_stalled_links or plan.has_cut_links or cluster.has_cuts else 3_000.0
        self._sessions: dict[BrokerId, Session] = {}
        self._last_acknowledged: dict[tuple[Session, TopicPartition], int] = {}
        """The high watermarks when brokers heard that their sessions were over."""
        self._moves = Moves(self)
        self._refused: set[BrokerId] = set()
        """Brokers whose start has failed."""
        self._due: dict[BrokerId, float] = {}
        """When brokers that are away start again."""
        self._stopping: set[BrokerId] = set()
        self._commit_reader: CommitReader | None = None
        self._ledger = GroupLedger(self)
        self._revocations = Random(f"revocations of {seed}")

    def make_plans(self, random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
        """Draws the plans."""
        return make_cluster_plan(random, sizes)

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        folder = tempfile.mkdtemp(prefix="klamm-simulation-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        for number in range(1, self.cluster.brokers + 1):
            self._add_machine(BrokerId(number), Path(folder) / f"broker-{number}")
        self.loop.after_step = self._after_step
        disks = attached([machine.device for machine in self.machines.values()])
        try:
            with ExitStack() as stack:
                stack.enter_context(undisturbed(self.seed))
                stack.enter_context(listening(self.fail))
                stack.enter_context(replaced(self.loop, disks, self.plan.step_ms))
                stack.enter_context(patch.object(run_record, "identify_page_cache", self._page_cache))
                stack.enter_context(self._moves.attached())
                stack.enter_context(watching(self.loop, self.cluster.load_step_ms))
                self._run_to_the_end(folder)
        finally:
            rmtree(folder)

    def _run_to_the_end(self, folder: str) -> None:
        try:
            self._begin()
            self._live()
            self._end()
        except Violation as violation:
            raise Violation(violation.invariant, violation.text.replace(f"{folder}/", "")) from violation
        finally:
            self.is_over = True
            for machine in self.machines.values():
                machine.end(Strike.KILL)
            self._clients.end()
            asyncio._set_running_loop(None)

    def _add_machine(self, number: BrokerId, root: Path) -> None:
        root.mkdir()
        device = Device(root, self.loop.random, partial(self._note_of, number))
        machine = self.machines[number] = Machine(
            root,
            device,
            self.network,
            self.config_of(number, str(root)),
            partial(self._failed, number),
            address=self.addresses[number - 1],
            connect=partial(self._connect, number),
        )
        machine.thread_ms = self._thread_ms
        machine.unregistered = partial(self._leave, number)

    def _page_cache(self, folder: Path) -> PageCache:
        """Returns the page cache of a machine: only a power failure ends it."""
        (device,) = (machine.device for machine in self.machines.values() if machine.device.is_mine(folder))
        return PageCache(f"boot {device.boots}", device=1, folder=1, root=1, mount=1, disk=1)

    def config_of(self, number: BrokerId, folder: str) -> BrokerConfig:
        """Returns the configuration of one of the brokers."""
        return cluster_config(self.plan, self.cluster, folder, number)

    def _note_of(self, number: BrokerId, template: str, *values: object) -> None:
        self.notes.add(f"broker %d: {template}", number, *values)

    async def _connect(self, number: BrokerId, loop: ProcessLoop) -> MetadataStore:
        session = self._sessions[number] = self.metadata.connect(loop, f"broker {number}")
        session.on_session_lost(partial(self._session_lost, number, session))
        return session

    def make_client(self, config: ClientConfig, ceilings: Mapping[int, int]) -> ClusterClient:
        return ClusterClient(self.network, config, ceilings)

    # Checks

    def log_of(self, where: TopicPartition) -> Log | None:
        for machine in self.machines.values():
            if machine.context is not None:
                led = machine.context.partitions.by_name.get(where.topic)
                partition = None if led is None else led.partitions[where.partition]
                if partition is not None and partition.leads:
                    return partition.log
        return None

    def machine_at(self, address: Address) -> Machine:
        return self.machines[BrokerId(self.addresses.index(address) + 1)]

    def has_folder(self, machine: Machine, where: TopicPartition) -> bool:
        """Returns whether the machine's disk has the log of a partition."""
        image = machine.device.image
        return (machine.device.path / str(where)).exists() if image is None else str(where) in image

    def note_synced(self, machine: Machine, where: TopicPartition) -> None:
        """Notes what is on the disk before the log moves or the process ends."""
        log, partition = machine.logs.get(where), self.model.partitions.get(where)
        if log is not None and partition is not None:
            partition.synced_offset = max(partition.synced_offset, log.recovery_point)

    def _check_synced(self, where: TopicPartition, offset: int, invariant: int) -> None:
        if self.plan.fsync != "ack" or self._stopping:
            return  # A broker that stops has closed its logs.
        logs = [log for machine in self.machines.values() if (log := machine.logs.get(where)) is not None]
        synced = max([self.model.partitions[where].synced_offset, *(log.recovery_point for log in logs)])
        if offset >= synced:
            raise Violation(invariant, f"offset {offset} of {where} is known, and not on the disk")

    def is_stopping(self, number: BrokerId) -> bool:
        """Returns whether a broker is about to stop."""
        return number in self._stopping

    def may_be_outdated(self, address: Address) -> bool:
        """See `ClientWorld.may_be_outdated`. A broker whose session has ended answers reads until its process ends. A
        real one closes all connections as soon as it hears of that."""
        return any(
            machine.address == address and (not machine.is_alive or self._sessions[number].is_over)
            for number, machine in self.machines.items()
        )

    # The course of events

    def _begin(self) -> None:
        for number in self.machines:
            self._start(number)
        self._run(_START_MS, self._all_serve)
        self._clients.run(self._spawn, create_topics(self))
        if not self._run(_START_MS, lambda: len(self.topic_ids) == len(self.plan.topics)):
            raise Violation(26, f"the topics were not created in {_START_MS} ms")
        self._make_clients()
        for participant in self._participants:
            self._clients.run(self._spawn, participant.live())
        self._look()

    def _make_clients(self) -> None:
        plan = self.plan
        for number in range(plan.producers):
            Producer(self, f"producer-{number}")
        for number, version in enumerate(plan.transactional):
            TransactionalProducer(self, f"transactional-{number}", version)
        if plan.transactional:
            OffsetReader(self, "offset-reader")
        if plan.has_lookups:
            Lookups(self, "lookups")
        if plan.has_committer:
            self._commit_reader = CommitReader(self, "commit-reader", Committer(self, "committer"))
        for number in range(plan.readers):
            is_committed = bool(plan.transactional) and number == 0
            kind = self.reader_kind()
            kind(self, f"reader-{number}", "read_committed" if is_committed else "read_uncommitted")
        for number in range(plan.streams):
            StreamReader(self, f"stream-{number}", "read_committed" if self.loop.chance(0.5) else "read_uncommitted")
        member = ConsumerMember if plan.has_consumer_protocol else ClassicMember
        for number in range(plan.members):
            member(self, f"member-{number}", self._ledger)
        if self.cluster.has_new_topics:
            NewTopics(self, "new-topics")
            TopicWatcher(self, "topic-watcher")

    @property
    def committer_group(self) -> str | None:
        """The group of the committer, if there is one."""
        return None if self._commit_reader is None else self._commit_reader.group_id

    @property
    def has_committed_offsets(self) -> bool:
        """Whether a commit was acknowledged to the committer, if there is one."""
        return self._commit_reader is not None and self._commit_reader.acknowledged > 0

    def ask_for_commits(self, number: BrokerId) -> None:
        """Asks one broker for the offsets of the committer, if there is one."""
        if self._commit_reader is not None:
            self._clients.run(self._spawn, self._commit_reader.ask_broker(self.machines[number].address))

    def reader_kind(self) -> type[Reader]:
        """Returns the kind of the next reader."""
        return Reader

    def _live(self) -> None:
        until_ms = self.loop.now_ms + self.cluster.duration_ms
        while self.loop.now_ms < until_ms:
            self._run(self.loop.random.random() * self.cluster.trouble_ms)
            self._trouble()

    def _end(self) -> None:
        """Ends all faults. All brokers serve, and all moves are done."""
        self._heal()
        if not self._run(_START_MS, lambda: self._all_serve() and self.is_settled()):
            away = sorted(number for number, machine in self.machines.items() if not machine.is_serving)
            raise Violation(26, f"brokers {away} do not serve after {_START_MS} ms, or {self.why_unsettled()}")
        if self.moves_calmly:
            self._move_calmly()
        self._finish()
        self.new_topics.check_end()

    @property
    def moves_calmly(self) -> bool:
        """Whether the coordinator of the group moves after the last fault, while its members only read, commit and send
        heartbeats. A stalled request of a member could still arrive then, and cause a rebalance."""
        has_members = bool(self.plan.members) and not self.plan.has_stalled_links
        return has_members and Random(f"calm moves of {self.seed}").random() < _CALM_CHANCE

    def _move_calmly(self) -> None:
        """Moves the coordinator of the group, and checks that no member loses a partition (I19)."""
        self.is_calm = True
        self.notes.add("the members only read, commit and send heartbeats")
        if not self._run(_START_MS, lambda: self._ledger.rests(self.plan.members, 2 * MEMBER_TIMEOUT_MS)):
            raise Violation(26, f"the members do not have all partitions after {_START_MS} ms")
        self._ledger.must_keep = True
        for _ in range(_CALM_MOVES):
            self._moves.begin_with(self._place_of_group)
            if not self._run(_START_MS, self.is_settled):
                raise Violation(26, f"{self._place_of_group} has no leader after {_START_MS} ms")
            self._run(2 * MEMBER_TIMEOUT_MS)
        self._ledger.must_keep = self.is_calm = False

    async def revoking(self) -> None:
        """Sometimes moves the coordinator of the group: the next one does not hear at once of the revocation."""
        if self.cluster.has_moves and not self.has_healed and self._revocations.random() < 0.5:
            self._moves.begin_with(self._place_of_group)
            await asyncio.sleep(self._revocations.random() * MEMBER_TIMEOUT_MS / 2_000)

    @property
    def _place_of_group(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, PartitionIndex(partition_for(GROUP, self.offsets_partitions)))

    def is_settled(self) -> bool:
        """Returns whether all partitions are where they should be after the last fault."""
        return self._moves.is_idle

    def why_unsettled(self) -> str:
        """Returns what is missing if `is_settled` returns False."""
        return "a move is not done"

    def _all_serve(self) -> bool:
        return not self._stopping and all(
            machine.is_serving and not self._sessions[number].is_over for number, machine in self.machines.items()
        )

    def _look(self) -> None:
        """Lets partitions move on, and brokers that are away start again; checks what was written meanwhile."""
        self._moves.go_on()
        self.read_transactions()
        for number, at_ms in list(self._due.items()):
            if self.loop.now_ms >= at_ms:
                del self._due[number]
                self._start(number)
        self.loop.call_later(_LOOK_MS, self._look)

    # Brokers

    def _start(self, number: BrokerId) -> None:
        machine = self.machines[number]
        assert not machine.is_alive
        if not self.is_ending and self.loop.chance(0.1) and (strike := self._some_strike()) is not None:
            machine.device.begin_life()
            self.arm(number, strike, self.loop.random.randint(1, 40))
        machine.start(partial(self._started, number))

    def arm(self, number: BrokerId, strike: Strike, calls: int) -> None:
        """Lets a fault strike a machine during one of its next calls to the disk."""
        self.machines[number].device.arm(strike, calls)

    def _started(self, number: BrokerId) -> None:
        self.life += 1
        self.notes.add("broker %d serves", number)
        self.check_logs(number)

    def check_logs(self, number: BrokerId) -> None:
        """Checks that the partitions which this broker leads have all known records (I3, I8)."""
        context = self.machines[number].context
        assert context is not None
        for where, model in self.model.partitions.items():
            topic = context.metadata.image.topics.get(where.topic)
            log = self.machines[number].logs.get(where)
            if topic is None or topic.partitions[where.partition].leader != number or log is None:
                continue
            if log.is_offline:
                raise Violation(8, f"{log.offline_reason}")
            if model.known and log.log_end_offset <= max(model.known):
                raise Violation(3, f"{where} ends at {log.log_end_offset}, and offset {max(model.known)} is known")

    def _failed(self, number: BrokerId, error: BaseException) -> None:
        # Not BrokerIsLive: a broker is the only process with its id, and recognizes the sessions of its earlier runs.
        machine = self.machines[number]
        if not machine.is_serving and isinstance(error, MetadataStoreError | KafkaError):
            self.notes.add("broker %d does not start: %s", number, str(error)[:60])
            self._refused.add(number)
            return
        self.fail(error)

    def _session_lost(self, number: BrokerId, session: Session) -> None:
        """Ends a broker some time after it has lost its session, as its supervisor does."""
        self.notes.add("broker %d has lost its session", number)

        def end() -> None:
            if self._sessions.get(number) is session and self.machines[number].is_alive:
                self._die(number, Strike.KILL)

        self.loop.call_later(self.loop.random.random() * _AWAY_MS, end)

    def _stop(self, number: BrokerId) -> None:
        self.notes.add("broker %d is told to stop", number)
        self._stopping.add(number)
        self.machines[number].stop(partial(self._stopped, number))

    def _leave(self, number: BrokerId) -> None:
        """Stops a broker that was unregistered, as its process does. It is started again, as by a supervisor."""
        if number not in self._stopping:
            self._stop(number)

    def _stopped(self, number: BrokerId) -> None:
        self._refused.add(number)

    def _die(self, number: BrokerId, strike: Strike | None) -> None:
        machine = self.machines[number]
        self.notes.add("broker %d: %s", number, strike or "the process is gone")
        for where in self.model.partitions:
            self.note_synced(machine, where)
        machine.end(strike)
        session = self._sessions.get(number)
        if session is not None and not session.is_dead:
            session.die(self.loop.random.random() * self.cluster.lease_ms)
        self.life += 1
        self._stopping.discard(number)
        self._refused.discard(number)
        self._due[number] = self.loop.now_ms + self.loop.random.random() * _AWAY_MS

    def _after_step(self) -> None:
        super()._after_step()
        for number, session in self._sessions.items():
            if session.is_over:
                self._check_nothing_is_acknowledged(self.machines[number], session)
                # Until its process ends, it may answer reads from the time before. A real broker disconnects at once.
                self.life += self.machines[number].is_alive
        for number, machine in self.machines.items():
            if machine.is_alive and (machine.device.is_gone or number in self._refused):
                self._die(number, None)

    def _check_nothing_is_acknowledged(self, machine: Machine, session: Session) -> None:
        """Checks that a broker commits no record after it was told that its session is over (I6)."""
        services = machine.services
        if services is None or services.has_session or services.context is None:
            return
        for where in self.partitions:
            led = services.context.partitions.by_name.get(where.topic)
            partition = None if led is None else led.partitions[where.partition]
            if partition is None or not partition.leads:
                continue
            high_watermark = partition.log.high_watermark
            before = self._last_acknowledged.setdefault((session, where), high_watermark)
            if high_watermark != before:
                raise Violation(
                    6, f"{session.name} has no session, and commits {where} from {before} to {high_watermark}"
                )

    # Faults

    def _trouble(self) -> None:
        plan, cluster, chance, draw = self.plan, self.cluster, self.loop.chance, self.loop.random
        serving = [number for number, each in self.machines.items() if each.is_serving and number not in self._stopping]
        if cluster.has_moves and chance(0.6):
            self._moves.begin()
        if serving and chance(0.15):
            number = draw.choice(serving)
            strike = self._some_strike()
            if strike is not None and chance(0.3):
                self.arm(number, strike, draw.randint(1, 30))
            elif strike is not None and not (plan.has_clean_stops and chance(0.4)):
                self._die(number, strike)
            elif plan.has_clean_stops:
                self._stop(number)
        if cluster.has_broken_watches and serving and chance(0.2):
            self._sessions[draw.choice(serving)].break_watch(draw.choice((20, 100, 300)))
        if cluster.has_lost_sessions and serving and chance(0.1):
            self.lose_session(draw.choice(serving))
        links = self.network.links
        if plan.has_cut_links and links and chance(0.3):
            draw.choice(links).break_off()
        if plan.has_stalled_links and links and chance(0.3):
            up = chance(0.5)
            draw.choice(links).stall(draw.choice((50, 500, 1_500)), up=up, down=not up)
        if cluster.has_cuts and len(serving) > 1 and chance(0.2):
            one, other = draw.sample(serving, 2)
            loop = self.machines[one].loop
            if loop is not None:
                self.notes.add("broker %d does not reach broker %d", one, other)
                self.network.cut(loop, self.machines[other].address)
        elif self.network.cuts and chance(0.3):
            self.heal_links()

    def heal_links(self) -> None:
        """Lets all brokers reach each other again."""
        self.network.heal()

    def lose_session(self, number: BrokerId) -> None:
        """Ends the session of a broker that runs."""
        self.metadata.end(self._sessions[number])

    def _some_strike(self) -> Strike | None:
        strikes = [Strike.KILL] * self.plan.has_kills + [Strike.POWER] * self.plan.has_power_failures
        return self.loop.random.choice(strikes) if strikes else None

    def _heal(self) -> None:
        self.has_healed = True
        self.network.heal()
        self.faults.unknown_rate = 0.0
        self.metadata.heal()
        for machine in self.machines.values():
            machine.device.disarm()

    def _thread_ms(self, name: str) -> float:
        draw = self.loop.random.random()
        return draw * self.plan.sync_ms if name == "klamm-sync" else draw * 0.3
