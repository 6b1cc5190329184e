"""Planted bugs in `klamm.core.delivery`: they show that worlds of workers find such bugs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final
from unittest.mock import patch

from klamm.core.delivery import commit_text, range_bytes
from klamm.core.delivery.partition_lanes import PartitionLanes
from klamm.core.delivery.range_bytes import OffsetRange
from klamm.core.delivery.record_delivery import Flow, RecordDelivery
from klamm.core.delivery.work import Work
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["DELIVERY_BUGS"]


@contextmanager
def _commit_past_an_unfinished_record() -> Iterator[None]:
    """The commit is the end of the last finished record, whatever is unfinished before it."""

    def position(lanes: PartitionLanes) -> Offset | None:
        finished = [work.offset for work in lanes._pending if work.is_finished]
        return Offset(finished[-1] + 1) if finished else lanes._pending[0].offset if lanes._pending else lanes.end

    with (
        patch.object(PartitionLanes, "position", property(position)),
        patch.object(PartitionLanes, "finished_ranges", lambda lanes: ()),
    ):
        yield


@contextmanager
def _run_two_records_of_a_key() -> Iterator[None]:
    """When a record of a key is finished, the next two records of the key start."""
    go_on = PartitionLanes.go_on

    def go_on_twice(lanes: PartitionLanes, lane: bytes) -> None:
        queue = lanes._lanes.get(lane)
        if queue is not None and len(queue) > 1:
            lanes.make_ready(queue.popleft())
        if lane in lanes._lanes:
            go_on(lanes, lane)

    with patch.object(PartitionLanes, "go_on", go_on_twice):
        yield


@contextmanager
def _let_a_retry_be_overtaken() -> Iterator[None]:
    """While a failed record waits for its next attempt, the next record of its key starts."""
    put_back = PartitionLanes.put_back

    def put_back_last(lanes: PartitionLanes, run: list[Work]) -> list[Work]:
        found = put_back(lanes, run)
        for work in found:
            queue = lanes._lanes.get(work.lane) if work.lane is not None else None
            if queue:
                lanes.make_ready(queue.popleft())
                queue.append(work)
                found = [each for each in found if each is not work]
        return found

    with patch.object(PartitionLanes, "put_back", put_back_last):
        yield


@contextmanager
def _read_ranges_wrongly() -> Iterator[None]:
    """The ranges of a commit are read with one offset too many."""
    read_ranges = range_bytes.read_ranges

    def read_more(position: Offset, data: bytes) -> tuple[OffsetRange, ...]:
        return tuple((first, Offset(end + 1)) for first, end in read_ranges(position, data))

    with patch.object(commit_text, "read_ranges", read_more):
        yield


@contextmanager
def _read_fewer_ranges() -> Iterator[None]:
    """The last range of a commit is not read."""
    read_ranges = range_bytes.read_ranges

    def read_fewer(position: Offset, data: bytes) -> tuple[OffsetRange, ...]:
        return read_ranges(position, data)[:-1]

    with patch.object(commit_text, "read_ranges", read_fewer):
        yield


@contextmanager
def _commit_after_the_loss() -> Iterator[None]:
    """A partition that is lost is still committed."""

    def keep(delivery: RecordDelivery, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition in delivery.partitions:
                delivery.partitions[partition].revoke()

    with patch.object(RecordDelivery, "drop", keep):
        yield


@contextmanager
def _forget_what_still_runs() -> Iterator[None]:
    """A partition that comes back starts keys whose records still run from its former ownership."""
    let_go = PartitionLanes.let_go

    def let_all_go(lanes: PartitionLanes, waiting: Iterable[Work]) -> set[bytes]:
        let_go(lanes, waiting)
        return set()

    with patch.object(PartitionLanes, "let_go", let_all_go):
        yield


@contextmanager
def _forget_inherited_ranges() -> Iterator[None]:
    """A commit names only what its member has finished, not what an earlier owner has finished beyond it."""
    finished_ranges = PartitionLanes.finished_ranges

    def own_ranges(lanes: PartitionLanes) -> tuple[OffsetRange, ...]:
        recovered, lanes._recovered = lanes._recovered, deque()
        try:
            return finished_ranges(lanes)
        finally:
            lanes._recovered = recovered

    with patch.object(PartitionLanes, "finished_ranges", own_ranges):
        yield


@contextmanager
def _ignore_the_room() -> Iterator[None]:
    """Records start although the commit's text may have no room for them once they are finished."""
    with patch.object(PartitionLanes, "_is_within_room", lambda *arguments: True):
        yield


@contextmanager
def _never_resume() -> Iterator[None]:
    """A paused partition is not resumed."""
    flow = RecordDelivery.flow

    def without_resume(delivery: RecordDelivery, now_ms: float) -> Flow:
        return Flow(flow(delivery, now_ms).pause, [])

    with patch.object(RecordDelivery, "flow", without_resume):
        yield


@contextmanager
def _drain_nothing() -> Iterator[None]:
    """A revoked partition is treated as drained while its records run."""
    with patch.object(RecordDelivery, "is_drained", lambda *arguments: True):
        yield


@contextmanager
def _repeat_a_batch_out_of_order() -> Iterator[None]:
    """The records of a failed batch are queued behind the later records of their key."""
    put_back = PartitionLanes.put_back

    def put_behind(lanes: PartitionLanes, run: list[Work]) -> list[Work]:
        found = put_back(lanes, run)
        for queue in filter(None, lanes._lanes.values()):
            failed = [work for work in queue if work in run]
            for work in failed:
                queue.remove(work)
            queue.extend(failed)
        return found

    with patch.object(PartitionLanes, "put_back", put_behind):
        yield


@contextmanager
def _keep_the_deadline_of_a_batch() -> Iterator[None]:
    """The records of a failed batch have the rest of its time, instead of a deadline of their own."""
    fail = RecordDelivery.fail

    def fail_and_keep(
        delivery: RecordDelivery, run: Sequence[Work], now_ms: float, *, is_final: bool = False
    ) -> list[Work]:
        deadlines = [work.deadline_ms for work in run]
        lost = fail(delivery, run, now_ms, is_final=is_final)
        for work, deadline_ms in zip(run, deadlines, strict=True):
            work.deadline_ms = deadline_ms
        return lost

    with patch.object(RecordDelivery, "fail", fail_and_keep):
        yield


@contextmanager
def _forget_a_failed_commit() -> Iterator[None]:
    """A commit that failed is not made again."""

    def forget(delivery: RecordDelivery, partitions: Sequence[TopicPartition]) -> None:
        pass

    with patch.object(RecordDelivery, "commit_failed", forget):
        yield


DELIVERY_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "commit past an unfinished record": _commit_past_an_unfinished_record,
    "run two records of a key": _run_two_records_of_a_key,
    "let a retry be overtaken": _let_a_retry_be_overtaken,
    "read ranges wrongly": _read_ranges_wrongly,
    "read fewer ranges": _read_fewer_ranges,
    "commit after the loss": _commit_after_the_loss,
    "forget what still runs": _forget_what_still_runs,
    "forget inherited ranges": _forget_inherited_ranges,
    "ignore the room": _ignore_the_room,
    "never resume": _never_resume,
    "drain nothing": _drain_nothing,
    "repeat a batch out of order": _repeat_a_batch_out_of_order,
    "keep the deadline of a batch": _keep_the_deadline_of_a_batch,
    "forget a failed commit": _forget_a_failed_commit,
}
"""Bugs that worlds of workers must find."""
