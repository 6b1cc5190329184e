"""Truncates the logs of partitions that this broker follows, without holding the event loop.

After a failover many logs may diverge at once. Their new offsets go to the checkpoints with one write, on another
thread. Then each log is cut, and its producers are rebuilt in steps: that reads every batch of the active segment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from klamm.broker.time_slices import Work, as_work, finish_in_steps
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
    from klamm.protocol.types import Millis
    from klamm.storage.directory.noted_truncations import NotedTruncations
    from klamm.storage.log.log import Log
    from klamm.storage.log.log_services import LogOffsets

__all__ = ["FollowerTruncations", "TruncationEnded"]

_logger = logging.getLogger(__name__)

TruncationEnded = Callable[["FollowedLog", KafkaError | None], None]
"""Called with a log that can be appended to again, or with the error that has taken it offline."""


class _Truncation(NamedTuple):
    followed: FollowedLog
    end_offset: Offset | None
    ended: TruncationEnded
    first_batch: bytes | None = None
    """A batch from `end_offset` on, with which an empty log is to begin."""


class FollowerTruncations:
    """The truncations of one broker, one after the other."""

    def __init__(self, logs: ReplicaLogs, noted: NotedTruncations, clock: Callable[[], Millis]) -> None:
        self._logs = logs
        self._noted = noted
        self._clock = clock
        self._begun: list[_Truncation] = []
        self._task: asyncio.Task[None] | None = None

    def begin(self, followed: FollowedLog, end_offset: Offset | None, ended: TruncationEnded) -> None:
        """Moves the end of a log to `end_offset`, and calls `ended` later.

        A log that ends before `end_offset` loses all its records and begins again there. None only completes the
        rebuild that an earlier truncation has begun. The log must not be appended to before `ended` is called. If the
        partition has another leader or leader epoch by then, `ended` is not called, and the log may be unchanged.
        """
        self._begun.append(_Truncation(followed, end_offset, ended))
        self._work()

    def begin_with(self, followed: FollowedLog, batch: bytes, ended: TruncationEnded) -> None:
        """Lets an empty log begin with a batch that covers its log start offset (`LogFollowing.begin_with`).

        Otherwise as `begin`.
        """
        base_offset = Offset(int.from_bytes(batch[:8], "big"))
        self._begun.append(_Truncation(followed, base_offset, ended, batch))
        self._work()

    def _work(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Ends the work. A rebuild that has begun is completed when the log is closed."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._begun:
            begun, self._begun = self._begun, []
            noted: dict[Log, LogOffsets] = {}
            try:
                await self._note_all(begun, noted)
                for each in begun:
                    await self._truncate(each)
            finally:
                self._noted.forget(noted)
            await self._correct(noted)

    async def _note_all(self, begun: Sequence[_Truncation], noted: dict[Log, LogOffsets]) -> None:
        """Writes what the checkpoints must contain before the truncations. If that fails, each truncation tries again,
        and fails if the disk still refuses: then the log goes offline."""
        try:
            for each in begun:
                self._add_offsets(each, noted)
            await self._note(noted)
        except OSError as error:
            _logger.warning("the offsets of logs that are to be truncated can't be written: %s", error)
        except Exception:
            # Otherwise the partitions would not be fetched any more.
            _logger.exception("the offsets of logs that are to be truncated can't be written")

    async def _correct(self, noted: dict[Log, LogOffsets]) -> None:
        """Writes the checkpoints again if they name a log start offset that a log has not got, because its leader has
        changed meanwhile. Until then, a start after a crash would drop the records below that offset."""
        if all(log.log_start_offset >= offsets.log_start_offset for log, offsets in noted.items()):
            return
        try:
            await self._write({})
        except OSError as error:
            _logger.warning("the offsets of logs that were not truncated can't be written yet: %s", error)
        except Exception:
            _logger.exception("the offsets of logs that were not truncated can't be written yet")

    def _add_offsets(self, truncation: _Truncation, noted: dict[Log, LogOffsets]) -> None:
        """Adds what the checkpoints must contain before this truncation."""
        log, end_offset = truncation.followed.log, truncation.end_offset
        if end_offset is None or not self._is_followed(truncation.followed):
            return
        try:
            offsets: LogOffsets | None
            if truncation.first_batch is not None:
                offsets = log.truncation.offsets_after_earlier_begin(end_offset)
            elif end_offset > log.log_end_offset:
                offsets = log.truncation.offsets_after_restart(end_offset)
            else:
                offsets = log.truncation.offsets_after_cut(end_offset)
        except KafkaError:
            return  # the truncation reports it
        if offsets is not None:
            noted[log] = offsets

    async def _note(self, truncations: dict[Log, LogOffsets]) -> None:
        if truncations:
            await self._write(truncations)

    async def _write(self, truncations: dict[Log, LogOffsets]) -> None:
        written = await finish_in_steps(as_work(self._noted.note_in_steps(truncations)))
        await asyncio.wrap_future(written)

    async def _truncate(self, truncation: _Truncation) -> None:
        followed, ended = truncation.followed, truncation.ended
        failure: KafkaError | None = None
        try:
            await finish_in_steps(self._truncate_in_steps(truncation))
        except KafkaError as error:
            failure = error
        except Exception as error:
            _logger.exception("the truncation of %s failed; it is tried again", followed.log)
            failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        if self._is_followed(followed):
            try:
                ended(followed, failure)
            except Exception:
                _logger.exception("%s can't be fetched again after a truncation", followed.log)

    def _truncate_in_steps(self, truncation: _Truncation) -> Work[None]:
        followed, end_offset, _, first_batch = truncation
        log = followed.log
        if not self._is_followed(followed):
            return
        if first_batch is not None:
            log.following.begin_with(first_batch, self._clock())
        elif end_offset is not None:
            before = log.log_end_offset
            if end_offset > before:
                log.following.restart_at(end_offset, self._clock())
            else:
                log.truncation.truncate_to(end_offset, self._clock())
                end = log.log_end_offset
                _logger.info(
                    "%s is truncated from %d to %d, as its leader, broker %d, says", log, before, end, followed.leader
                )
        while self._is_followed(followed) and not log.producers.rebuild_some():
            yield None

    def _is_followed(self, followed: FollowedLog) -> bool:
        return self._logs.get(followed.key) is followed
