"""What touches very many things is done a little at a time; answers about them are encoded beside the event loop.

Between two steps others have their turn, so such an answer is no picture of one moment. Nobody can tell: what it names
may change while it travels, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeVar

from klamm.protocol.codec import Message, encode
from klamm.runtime.answers import Answer

__all__ = ["GROUPS_AT_ONCE", "IDS_AT_ONCE", "STEP_S", "answer_in_steps", "finish_in_steps"]

R = TypeVar("R")

IDS_AT_ONCE: Final = 500
"""So many groups or transactional ids are listed in one step: about a millisecond."""
GROUPS_AT_ONCE: Final = 50
"""So many groups are described in one step."""
STEP_S: Final = 0.002
"""Work that comes in small parts goes on for so long before others have their turn: with the last part, which may be
longer than the others, it is to stay far below ten milliseconds."""


async def answer_in_steps(
    parts: Iterable[Callable[[], Answer[R]]], merge: Callable[[list[R]], Message], api_version: int
) -> bytes:
    """What `merge` makes of the parts, which are asked for one in a step, as it travels."""
    done: list[R] = []
    for part in parts:
        answer = part()
        done.append(await answer if hasattr(answer, "__await__") else answer)
        await asyncio.sleep(0)
    return await asyncio.to_thread(encode, merge(done), api_version)


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
