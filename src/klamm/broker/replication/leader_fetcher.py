"""Copies the partitions that this broker follows from one leader: fetches, truncates where the logs diverge, appends.

One Fetch is in flight at a time. The next one tells the leader how far this broker holds the records; with
`klamm.fsync=ack` they are on the disk by then.

Source: `AbstractFetcherThread` and `ReplicaFetcherThread` of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, Final

from klamm.broker.replication.leader_offsets import EARLIEST, LATEST, ask_for_offset
from klamm.broker.services.peers.peers import Peers, PeerUnavailable
from klamm.broker.time_slices import STEP_S
from klamm.core.replication.follower_fetch import FetchLimits, FetchPosition, FollowerFetch, PartitionKey
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.fetch_response import FetchResponse, PartitionData
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, TopicId

if TYPE_CHECKING:
    from klamm.broker.partitions.followed_partition import FollowerReads
    from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
    from klamm.broker.replication.failed_logs import FailedLogs
    from klamm.broker.replication.follower_truncations import FollowerTruncations
    from klamm.broker.replication.replication_quotas import ReplicationQuotas
    from klamm.storage.log.log import Log

__all__ = ["LeaderFetcher"]

_logger = logging.getLogger(__name__)

_BATCHES_AT_ONCE: Final = 100
"""Number of batches that are appended in a step."""
_SHORTEST_WAIT_MS: Final = 1.0
_FIRST_DELAY_MS: Final = 50
"""Delay after the first failure of a partition. Most often the leader has not received the newest metadata yet."""
_WARN_AT: Final = 5
"""Failures in a row, within two seconds, before a partition is worth a line in the log."""

Synced = Callable[[Collection["Log"]], Awaitable[None]]
"""Returns when these logs are on the disk up to their ends."""


class LeaderFetcher:
    """The fetches of this broker from one other broker."""

    def __init__(
        self,
        leader: BrokerId,
        node_id: BrokerId,
        logs: ReplicaLogs,
        peers: Peers,
        *,
        reads: FollowerReads,
        limits: FetchLimits,
        backoff_ms: int,
        own_epoch: Callable[[], int],
        quotas: ReplicationQuotas,
        truncations: FollowerTruncations,
        clock: Callable[[], Millis],
        synced: Synced | None,
        failed_logs: FailedLogs,
    ) -> None:
        """Creates the fetcher without partitions.

        Tells `reads`, which wait for records, what is copied and committed. `own_epoch` returns the epoch of this
        broker's run. `synced` is given if a record counts only when it is on the disk (`klamm.fsync=ack`). Tells
        `failed_logs` of logs that can't be written to, so that no commit waits for them, and asks when to fetch them.
        """
        self._failed_logs = failed_logs
        self._leader = leader
        self._node_id = node_id
        self._logs = logs
        self._reads = reads
        self._peers = peers
        self._backoff_ms = backoff_ms
        self._own_epoch = own_epoch
        self._quotas = quotas
        self._truncations = truncations
        self._clock = clock
        self._synced = synced
        self._loop = asyncio.get_running_loop()
        self._fetch = FollowerFetch(node_id, limits)
        self._unsynced: dict[PartitionKey, None] = {}
        """Partitions to fetch once their logs are synced."""
        self._failures: dict[PartitionKey, int] = {}
        """Number of failures in a row of each partition that failed last."""
        self._failing: list[str] = []
        """Log lines, not written yet, about partitions that fail again and again."""
        self._lags: dict[PartitionKey, int] = {}
        self._behind: dict[PartitionKey, None] = {}
        """Partitions of which this broker lacks committed records, or may lack them."""
        self._has_changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def largest_lag(self) -> int:
        """The largest number of committed records, over all partitions, that this broker lacked at the last answer."""
        return max(self._lags.values(), default=0)

    def put(self, followed: FollowedLog) -> None:
        """Fetches a partition, from the end of its log on."""
        self._failures.pop(followed.key, None)
        self._behind[followed.key] = None
        if not followed.log.producers.is_rebuilt:
            self._fetch.pause(followed.key)
            self._truncations.begin(followed, None, self._on_truncated)
        elif self._synced is not None:
            self._unsynced[followed.key] = None
        else:
            self._put(followed)
        self._has_changed.set()
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    def remove(self, key: PartitionKey) -> None:
        """Stops fetching a partition."""
        self._fetch.remove(key)
        self._unsynced.pop(key, None)
        self._failures.pop(key, None)
        self._lags.pop(key, None)
        self._behind.pop(key, None)

    def stop(self) -> None:
        """Ends all fetching."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._sync()
                if not await self._fetch_once():
                    await self._wait_for_work()
                failures = 0
            except PeerUnavailable as error:
                self._fetch.reset()
                _logger.debug("broker %d can't be fetched from: %s", self._leader, error)
                await self._wait(min(self._backoff_ms, _FIRST_DELAY_MS << min(failures, 8)) / 1000)
                failures += 1
            except Exception:
                _logger.exception("a fetch from broker %d failed; it is tried again", self._leader)
                self._fetch.reset()
                await asyncio.sleep(self._backoff_ms / 1000)

    async def _fetch_once(self) -> bool:
        """Sends a request and applies its response. Returns False if there was nothing to request."""
        await self._hold_throttled()
        request = self._fetch.next_request(self._own_epoch(), self._now_ms())
        if request is None:
            return False
        response = await self._peers.request(self._leader, request, FetchResponse)
        if self._fetch.received(response.session_id, response.error_code):
            await self._apply(response)
        else:
            code = ErrorCode(response.error_code)
            _logger.info("the fetch session with broker %d begins again: %s", self._leader, code.name)
        return True

    async def _hold_throttled(self) -> None:
        """Takes the throttled partitions that are behind out of the next request while the quota is used up.

        Source: `RemoteLeaderEndPoint.buildFetch` and `shouldFollowerThrottle`.
        """
        self._fetch.release_due(self._now_ms())
        if not self._behind or not self._quotas.is_follower_over():
            return
        step_ends = monotonic() + STEP_S
        for key in list(self._behind):
            followed = self._logs.get(key)
            if followed is not None and self._quotas.is_throttled(followed.log):
                self._fetch.hold(key, self._now_ms() + self._backoff_ms)
            if monotonic() >= step_ends:
                await asyncio.sleep(0)
                step_ends = monotonic() + STEP_S

    async def _wait_for_work(self) -> None:
        due_ms = self._fetch.due_in_ms(self._now_ms())
        # A clock may be a little short of the time at which it was to wake.
        await self._wait(None if due_ms is None else max(due_ms, _SHORTEST_WAIT_MS) / 1000)

    async def _wait(self, longest_s: float | None) -> None:
        self._has_changed.clear()
        try:
            async with asyncio.timeout(longest_s):
                await self._has_changed.wait()
        except TimeoutError:
            pass

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    # -- applying a response -------------------------------------------------------------------------------------------

    async def _apply(self, response: FetchResponse) -> None:
        step_ends = monotonic() + STEP_S
        behind: list[tuple[PartitionKey, FetchPosition]] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicId(topic.topic_id), data.partition_index
                if await self._apply_partition(key, data):
                    position = self._fetch.answered(key)
                    if position is not None:
                        behind.append((key, position))
                if monotonic() >= step_ends:
                    await asyncio.sleep(0)
                    step_ends = monotonic() + STEP_S
        for key, position in behind:
            await self._find_offset(key, position)
        if self._failing:
            failing, self._failing = self._failing, []
            _logger.warning(
                "%d partition(s) can't be fetched from broker %d; the first is %s",
                len(failing),
                self._leader,
                failing[0],
            )

    async def _apply_partition(self, key: PartitionKey, data: PartitionData) -> bool:
        """Applies the answer for one partition. Returns whether its fetch offset is outside the leader's log."""
        followed = self._logs.get(key)
        position = self._fetch.answered(key)
        if followed is None or position is None or followed.leader_epoch != position.leader_epoch:
            return False
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return True
        if data.error_code:
            self._fail(followed, ErrorCode(data.error_code).name)
        elif data.diverging_epoch.epoch >= 0:
            self._truncate(followed, data)
        else:
            await self._take_over(followed, position, data)
        return False

    async def _take_over(self, followed: FollowedLog, position: FetchPosition, data: PartitionData) -> None:
        """Appends the records of an answer, and fetches on behind them."""
        key, log = followed.key, followed.log
        try:
            if not await self._append(followed, position, data):
                return
        except KafkaError as error:
            self._refused(followed, error)
            if log.is_offline:
                return
            # What the leader has deleted may make room on a full disk.
            self._take_over_limits(followed, data)
            if followed.position != position:
                # The batches before the bad one are appended, for example. The next request begins behind them.
                self._continue(followed)
            return
        self._failures.pop(key, None)
        if self._lags[key]:
            self._behind[key] = None
        else:
            self._behind.pop(key, None)
        self._continue(followed)

    def _truncate(self, followed: FollowedLog, data: PartitionData) -> None:
        """Begins a truncation to where the log diverges from the leader's. It is not fetched meanwhile."""
        diverging = data.diverging_epoch
        end = followed.log.following.agreed_end(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
        self._move_end(followed, end)

    def _move_end(self, followed: FollowedLog, end_offset: Offset) -> None:
        self._fetch.pause(followed.key)
        self._truncations.begin(followed, end_offset, self._on_truncated)

    def _on_truncated(self, followed: FollowedLog, error: KafkaError | None) -> None:
        if error is not None:
            self._refused(followed, error)
        else:
            self._failures.pop(followed.key, None)
            self._continue(followed)
        self._has_changed.set()

    def _refused(self, followed: FollowedLog, error: KafkaError) -> None:
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._failed_logs.add(followed.log.topic_partition)
        self._fail(followed, str(error))

    async def _append(self, followed: FollowedLog, position: FetchPosition, data: PartitionData) -> bool:
        """Appends some batches at a time. Returns False if the rest of the answer is not needed.

        That is so if the partition is not followed any more, or in another leader epoch, or if its log begins within
        the first batch: then the log begins again with this batch, and is fetched from there on.
        """
        log = followed.log
        left = memoryview(data.records or b"")
        if left:
            self._quotas.received(log, len(left))
            first = log.following.batch_across_start(left, followed.leader_epoch)
            if first is not None:
                _logger.info("%s begins with a batch that begins below its log start offset", log)
                self._fetch.pause(followed.key)
                self._truncations.begin_with(followed, first, self._on_truncated)
                return False
        while left:
            done = log.following.append(
                left, self._clock(), leader_epoch=followed.leader_epoch, most_batches=_BATCHES_AT_ONCE
            )
            left = left[done:]
            if done:
                self._reads.copied(followed.key, log.log_end_offset, done)
            if not done or not left:
                break
            await asyncio.sleep(0)
            if self._logs.get(followed.key) is not followed or self._fetch.answered(followed.key) != position:
                return False
        self._take_over_limits(followed, data)
        return True

    def _take_over_limits(self, followed: FollowedLog, data: PartitionData) -> None:
        log = followed.log
        self._lags[followed.key] = max(0, data.high_watermark - log.log_end_offset)
        before = log.high_watermark
        log.advance_high_watermark(Offset(data.high_watermark))
        if log.high_watermark > before:
            self._reads.committed(followed.key, log.high_watermark)
        log.following.raise_log_start_offset(Offset(data.log_start_offset))

    def _continue(self, followed: FollowedLog) -> None:
        """Fetches from the end of the log on, after a sync if one is needed."""
        if self._synced is not None and followed.log.recovery_point < followed.log.log_end_offset:
            self._unsynced[followed.key] = None
        else:
            self._put(followed)

    def _put(self, followed: FollowedLog) -> None:
        """Fetches as soon as the pause after a failed write is over."""
        self._fetch.put(followed.key, followed.position)
        due_ms = self._failed_logs.may_fetch_at_ms(followed.log.topic_partition)
        if due_ms > self._now_ms():
            self._fetch.delay(followed.key, due_ms)

    async def _sync(self) -> None:
        while self._unsynced:
            keys, self._unsynced = list(self._unsynced), {}
            found = [followed for key in keys if (followed := self._logs.get(key)) is not None]
            assert self._synced is not None
            await self._synced([followed.log for followed in found])
            for followed in found:
                if self._logs.get(followed.key) is followed and not followed.log.is_offline:
                    self._put(followed)

    def _fail(self, followed: FollowedLog, reason: str) -> None:
        if followed.log.is_offline:
            self.remove(followed.key)
            return
        count = self._failures.get(followed.key, 0)
        self._failures[followed.key] = count + 1
        _logger.debug("%s can't be fetched from broker %d: %s", followed.log, self._leader, reason)
        if count == _WARN_AT:
            self._failing.append(f"{followed.log}: {reason}")
        due_ms = self._now_ms() + min(self._backoff_ms, _FIRST_DELAY_MS << min(count, 8))
        self._fetch.delay(followed.key, max(due_ms, self._failed_logs.may_fetch_at_ms(followed.log.topic_partition)))

    # -- outside the leader's log --------------------------------------------------------------------------------------

    async def _find_offset(self, key: PartitionKey, position: FetchPosition) -> None:
        """Truncates a log that ends behind the leader's, or begins again where the leader's log begins.

        Source: `AbstractFetcherThread.fetchOffsetAndApplyTruncateAndBuild`.
        """
        followed = self._logs.get(key)
        if followed is None:
            return
        try:
            leader_end = await ask_for_offset(self._peers, self._node_id, followed, LATEST)
            leader_start = await ask_for_offset(self._peers, self._node_id, followed, EARLIEST)
            if self._logs.get(key) is not followed or self._fetch.answered(key) != position:
                return  # another leader, or another leader epoch
            log = followed.log
            if leader_end < log.log_end_offset:
                _logger.warning("%s ends at %d, and its leader's log at %d", log, log.log_end_offset, leader_end)
                self._move_end(followed, leader_end)
                return
            if leader_start > log.log_end_offset:
                _logger.info("%s begins again at %d: the records before it are deleted", log, leader_start)
                self._move_end(followed, leader_start)
                return
            log.following.raise_log_start_offset(leader_start)
        except KafkaError as error:
            self._fail(followed, str(error))
        else:
            self._continue(followed)
