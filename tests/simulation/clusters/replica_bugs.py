"""Planted bugs of replication: they show that worlds of replicated partitions find such bugs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.clusters.bugs import CLUSTER_BUGS
from tests.simulation.logs.bugs import LOG_BUGS

from klamm.broker.partitions import fetch_read
from klamm.broker.partitions import followers as followers_module
from klamm.broker.partitions.followers import Followers, ReplicationPort
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.replica_logs import FollowedLog
from klamm.broker.replication.failed_logs import FailedLogs
from klamm.broker.replication.in_sync_proposals import InSyncProposals, _Begun
from klamm.broker.replication.leader_fetcher import LeaderFetcher
from klamm.broker.replication.replica_fetchers import ReplicaFetchers
from klamm.core.replication import in_sync_replicas, run_mark
from klamm.core.replication.follower_progress import FollowerProgress
from klamm.core.replication.run_mark import PageCache
from klamm.metadata import brokers, config_changes
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage
from klamm.metadata.metadata_store import Change
from klamm.metadata.replicas import broker_departure, isr_changes, partition_change, partition_changes, replica_rules
from klamm.metadata.replicas.isr_changes import IsrProposal
from klamm.metadata.replicas.partition_change import Election, ReplicaRules
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.storage.directory.run_record import RunRecord
from klamm.storage.log import log_following
from klamm.storage.log.log import Log
from klamm.storage.log.log_following import LogFollowing

__all__ = ["REPLICA_BUGS"]


@contextmanager
def _truncate_to_the_high_watermark() -> Iterator[None]:
    """A follower begins at its high watermark, not where the leader epochs diverge, as in Kafka before KIP-101."""
    put = LeaderFetcher.put

    def cut_and_put(fetcher: LeaderFetcher, followed: FollowedLog) -> None:
        followed.log.truncate_to(followed.log.high_watermark, fetcher._clock())
        put(fetcher, followed)

    with patch.object(LeaderFetcher, "put", cut_and_put):
        yield


@contextmanager
def _truncate_whole_epochs() -> Iterator[None]:
    """A follower removes the whole leader epoch within which its log diverges from the leader's."""
    agreed_end = LogFollowing.agreed_end

    def agree_less(following: LogFollowing, epoch: LeaderEpoch, end_offset: Offset) -> Offset:
        starts = [entry.start_offset for entry in following._epochs.known.entries if entry.epoch == epoch]
        return agreed_end(following, epoch, min([end_offset, *starts]))

    with patch.object(LogFollowing, "agreed_end", agree_less):
        yield


@contextmanager
def _let_logs_diverge() -> Iterator[None]:
    """A leader does not tell a follower that its log diverges: the follower appends behind other records."""
    with patch.object(fetch_read, "diverging_epoch", lambda *arguments: None):
        yield


@contextmanager
def _join_too_early() -> Iterator[None]:
    """A follower joins the in-sync replicas although it lacks committed records."""

    def may_join(progress: FollowerProgress, live_epoch: int | None, *offsets: Offset) -> bool:
        return in_sync_replicas.is_eligible(progress, live_epoch)

    with patch.object(followers_module, "may_join", may_join):
        yield


@contextmanager
def _let_the_high_watermark_fall() -> Iterator[None]:
    """The high watermark of a leader follows the slowest in-sync follower, also downwards."""

    def move(partition: Partition, held: Offset) -> None:
        ends = () if partition.followers is None else partition.followers.end_offsets
        known = [end for end in (held, *ends) if end >= 0]
        partition.log.state.high_watermark = min(known)

    with patch.object(Partition, "_raise_high_watermark", move):
        yield


@contextmanager
def _ignore_the_proposal() -> Iterator[None]:
    """The high watermark does not wait for replicas that are proposed but not committed (KIP-497)."""

    def collect(followers: Followers) -> None:
        followers.end_offsets = tuple(
            progress.end_offset
            for broker_id, progress in followers._progress.items()
            if broker_id in followers._image.isr
        )

    with patch.object(Followers, "_collect", collect):
        yield


@contextmanager
def _trust_an_earlier_run() -> Iterator[None]:
    """A replica joins the in-sync replicas although it has started again since its last Fetch (KIP-903)."""

    def is_eligible(progress: FollowerProgress, live_epoch: int | None) -> bool:
        return live_epoch is not None

    with ExitStack() as stack:
        stack.enter_context(patch.object(followers_module, "is_eligible", is_eligible))
        stack.enter_context(
            patch.object(
                followers_module,
                "may_join",
                lambda progress, live_epoch, high_watermark, start: (
                    live_epoch is not None and progress.end_offset >= high_watermark and progress.end_offset >= start
                ),
            )
        )
        stack.enter_context(patch.object(Followers, "_epoch_of", lambda followers, broker_id: -1))
        stack.enter_context(patch.object(Followers, "check_replica", _check_membership))
        yield


def _check_membership(followers: Followers, broker_id: BrokerId, broker_epoch: int, knows_epoch: bool) -> None:
    """Accepts each Fetch of a replica."""


@contextmanager
def _skip_the_broker_epoch() -> Iterator[None]:
    """The metadata do not compare the epoch of a run that joins the in-sync replicas with the present one (KIP-903)."""
    check = isr_changes._check

    def check_without_epochs(image: MetadataImage, partition: PartitionImage, proposal: IsrProposal) -> None:
        check(image, partition, proposal._replace(isr=[(broker_id, -1) for broker_id, _ in proposal.isr]))

    with patch.object(isr_changes, "_check", check_without_epochs):
        yield


@contextmanager
def _remember_an_earlier_epoch() -> Iterator[None]:
    """A leader keeps what it knows of its followers when it leads in another leader epoch. A follower may have
    truncated its log meanwhile."""
    replicate = Partition.replicate

    def keep(partition: Partition, followers: Followers | None) -> None:
        before = partition.followers
        replicate(partition, followers)
        if before is not None and followers is not None:
            known = {number: each for number, each in before._progress.items() if number in followers._progress}
            followers._progress.update(known)
            followers._collect()

    with patch.object(Partition, "replicate", keep):
        yield


@contextmanager
def _commit_after_the_lease() -> Iterator[None]:
    """A leader commits although its session may have ended, until it is told so."""
    replicate = PartitionRegistry.replicate

    def without_clock(registry: PartitionRegistry, port: ReplicationPort, may_commit: Callable[[], bool]) -> None:
        replicate(registry, port, lambda: True)

    with patch.object(PartitionRegistry, "replicate", without_clock):
        yield


@contextmanager
def _coordinate_after_the_lease() -> Iterator[None]:
    """A coordinator answers although its session may have ended, until it is told so."""
    start = CoordinatorRuntime.__init__

    def without_clock(runtime: CoordinatorRuntime[Any], *arguments: Any, **options: Any) -> None:
        start(runtime, *arguments, **{**options, "has_session": None})

    with patch.object(CoordinatorRuntime, "__init__", without_clock):
        yield


@contextmanager
def _elect_anybody() -> Iterator[None]:
    """Any live replica is elected, also one that lacks committed records."""

    def rules_of(*arguments: Any, **options: Any) -> ReplicaRules:
        return replica_rules.rules_of(*arguments, is_unclean_allowed=True)

    with patch.object(broker_departure, "rules_of", rules_of), patch.object(isr_changes, "rules_of", rules_of):
        yield


@contextmanager
def _elect_while_one_returns() -> Iterator[None]:
    """An unclean election does not depend on the replicas that have more records, one of which may register now."""

    def deciding(before: PartitionImage, after: PartitionImage) -> set[BrokerId]:
        return set() if after.leader in (NO_BROKER, before.leader) else {after.leader}

    with patch.object(partition_changes, "_deciding_runs", deciding):
        yield


@contextmanager
def _pass_over_the_eligible() -> Iterator[None]:
    """While in-sync replicas that are away are not removed yet, an unclean election takes any live replica, although an
    eligible leader replica is live."""
    elect = partition_change._elect

    def elect_first(
        before: PartitionImage,
        wanted: PartitionImage,
        rules: ReplicaRules,
        unclean_stops: Collection[BrokerId],
        election: Election,
    ) -> PartitionImage:
        elected = elect(before, wanted, rules, unclean_stops, election)
        is_allowed = rules.is_unclean_allowed or election is Election.UNCLEAN
        if not (is_allowed and wanted.isr) or elected.leader in (NO_BROKER, *wanted.isr):
            return elected
        leader = next(each for each in wanted.replicas if rules.may_lead(each))
        return replace(elected, leader=leader, isr=(leader,), elr=(), is_recovering=True)

    with patch.object(partition_change, "_elect", elect_first):
        yield


@contextmanager
def _keep_the_places() -> Iterator[None]:
    """A new run of a broker keeps its leaderships and its places among the in-sync replicas."""

    def keep(partition: PartitionImage, *arguments: Any, **options: Any) -> PartitionImage:
        return partition

    with patch.object(brokers, "without_run_of", keep):
        yield


@contextmanager
def _count_unsynced_records() -> Iterator[None]:
    """With `klamm.fsync=ack`, a follower counts records that are not on its disk."""

    async def forget(fetchers: ReplicaFetchers, logs: Collection[Log]) -> None:
        return

    with patch.object(ReplicaFetchers, "_synced", forget):
        yield


@contextmanager
def _commit_alone() -> Iterator[None]:
    """A leader commits without its followers."""

    def collect(followers: Followers) -> None:
        followers.end_offsets = ()

    with patch.object(Followers, "_collect", collect):
        yield


@contextmanager
def _keep_the_eligible() -> Iterator[None]:
    """`min.insync.replicas` is lowered, and eligible leader replicas stay eligible (KIP-966)."""

    def clear_nothing(topics: object) -> dict[str, Change]:
        return {}

    with patch.object(config_changes, "clearing", clear_nothing):
        yield


@contextmanager
def _append_damaged_batches() -> Iterator[None]:
    """A follower does not check the CRC of the batches that it appends."""
    with patch.object(log_following, "batch_crc_is_valid", lambda *arguments: True):
        yield


@contextmanager
def _forget_the_boot() -> Iterator[None]:
    """A start does not compare boot ids, and ignores what its recovery has found: a power failure counts as a kill."""

    def is_same_cache(before: PageCache | None, now: PageCache | None) -> bool:
        return before is not None and now is not None

    with (
        patch.object(run_mark, "is_same_cache", is_same_cache),
        patch.object(RunRecord, "distrust", lambda record: None),
    ):
        yield


@contextmanager
def _keep_a_place_after_the_failure() -> Iterator[None]:
    """A replica whose log has failed keeps the place that it gets afterwards, because its leader proposed it before."""

    def ignore(failed_logs: FailedLogs, old: MetadataImage, new: MetadataImage) -> None:
        return

    with patch.object(FailedLogs, "on_metadata_update", ignore):
        yield


@contextmanager
def _shrink_without_a_log() -> Iterator[None]:
    """A leader whose log is offline removes its followers from the in-sync replicas, because they do not fetch."""
    begin_waiting = InSyncProposals._begin_waiting

    def begin_offline(proposals: InSyncProposals) -> Iterator[_Begun]:
        for partition in [each for each in proposals._waiting if each.log.is_offline and each.accepts_writes]:
            del proposals._waiting[partition]
            followers, topic_id, image = partition.followers, proposals._topic_ids(partition), partition.image
            members = None if followers is None else followers.begin_proposal(partition)
            if followers is not None and topic_id is not None and members is not None:
                epochs = partition.leader_epoch, image.partition_epoch
                yield _Begun(
                    partition, followers, IsrProposal(topic_id, image.index, proposals.node_id, *epochs, members)
                )
        yield from begin_waiting(proposals)

    with patch.object(InSyncProposals, "_begin_waiting", begin_offline):
        yield


@contextmanager
def _fetch_from_former_leaders() -> Iterator[None]:
    """A follower goes on to fetch from the former leader, too."""
    change = ReplicaFetchers._on_change

    def remove_none(fetchers: ReplicaFetchers, old: FollowedLog | None, new: FollowedLog | None) -> None:
        change(fetchers, None, new)

    with patch.object(ReplicaFetchers, "_on_change", remove_none):
        yield


REPLICA_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "truncate to the high watermark": _truncate_to_the_high_watermark,
    "truncate whole epochs": _truncate_whole_epochs,
    "let logs diverge": _let_logs_diverge,
    "join too early": _join_too_early,
    "let the high watermark fall": _let_the_high_watermark_fall,
    "ignore the proposal": _ignore_the_proposal,
    "trust an earlier run": _trust_an_earlier_run,
    "skip the broker epoch": _skip_the_broker_epoch,
    "remember an earlier epoch": _remember_an_earlier_epoch,
    "commit after the lease": _commit_after_the_lease,
    "coordinate after the lease": _coordinate_after_the_lease,
    "elect anybody": _elect_anybody,
    "elect while one returns": _elect_while_one_returns,
    "pass over the eligible": _pass_over_the_eligible,
    "keep the places": _keep_the_places,
    "count unsynced records": _count_unsynced_records,
    "commit alone": _commit_alone,
    "keep the eligible": _keep_the_eligible,
    "append damaged batches": _append_damaged_batches,
    "forget the boot": _forget_the_boot,
    "keep a place after the failure": _keep_a_place_after_the_failure,
    "shrink without a log": _shrink_without_a_log,
    "fetch from former leaders": _fetch_from_former_leaders,
    "keep leading": CLUSTER_BUGS["keep leading"],
    "forget a lost folder": LOG_BUGS["make a lost folder anew"],
    "repeat blindly": CLUSTER_BUGS["repeat blindly"],
    "acknowledge without a session": CLUSTER_BUGS["acknowledge without a session"],
}
"""Bugs that worlds of replicas must find."""
