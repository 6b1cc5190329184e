"""What touches very many things is done a little at a time; answers about them are encoded beside the event loop.

Between two steps others have their turn, so such an answer is no picture of one moment. Nobody can tell: what it names
may change while it travels, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy
from typing import Final, TypeVar

from klamm.protocol.codec import Message, encode
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.runtime.answers import Answer, gather

__all__ = [
    "GROUPS_AT_ONCE",
    "IDS_AT_ONCE",
    "OFFSETS_AT_ONCE",
    "STEP_S",
    "answer_in_steps",
    "finish_in_steps",
    "offsets_in_parts",
]

R = TypeVar("R")
C = TypeVar("C", OffsetCommitRequest, TxnOffsetCommitRequest)

IDS_AT_ONCE: Final = 500
"""So many groups or transactional ids are listed in one step: about a millisecond."""
GROUPS_AT_ONCE: Final = 50
"""So many groups are described in one step."""
OFFSETS_AT_ONCE: Final = 500
"""So many offsets are committed in one step: four to six milliseconds."""
STEP_S: Final = 0.002
"""Work that comes in small parts goes on for so long before others have their turn: with the last part, which may be
longer than the others, it is to stay far below ten milliseconds."""


async def answer_in_steps(
    parts: Iterable[Callable[[], Answer[R]]], merge: Callable[[list[R]], Message], api_version: int
) -> bytes:
    """What `merge` makes of the parts, which are asked for one in a step, as it travels. None waits for the answer of
    the one before."""
    answers: list[Answer[R]] = []
    for part in parts:
        answers.append(part())
        await asyncio.sleep(0)
    gathered = gather(answers)
    done = await gathered if hasattr(gathered, "__await__") else gathered
    return await asyncio.to_thread(encode, merge(done), api_version)


def offsets_in_parts(request: C, count: int) -> Iterator[C]:
    """The same commit as several, of at most so many partitions each."""
    part, room = copy(request), count
    part.topics = []
    for topic in request.topics:
        start = 0
        while start < len(topic.partitions):
            piece = copy(topic)
            piece.partitions = topic.partitions[start : start + room]
            part.topics.append(piece)
            start += len(piece.partitions)
            room -= len(piece.partitions)
            if not room:
                yield part
                part, room = copy(request), count
                part.topics = []
    if part.topics:
        yield part


async def finish_in_steps(work: Generator[None, None, R]) -> R:
    """What comes of the work; others have their turn whenever it yields, and when it is done."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            await asyncio.sleep(0)
            return result
        await asyncio.sleep(0)
