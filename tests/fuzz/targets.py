"""All targets by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.batches import READER, SCANNER
from tests.fuzz.columns import COLUMNS
from tests.fuzz.frames import FRAMES
from tests.fuzz.guard import Target
from tests.fuzz.messages import MEMBERS, REQUESTS, RESPONSES

__all__ = ["TARGETS", "check_any"]

TARGETS: Final[dict[str, Target]] = {
    target.name: target for target in (FRAMES, REQUESTS, RESPONSES, MEMBERS, READER, SCANNER, COLUMNS)
}
_ALL: Final = tuple(TARGETS.values())


def check_any(data: bytes) -> None:
    """Checks the target that the first byte selects; the rest of the bytes is its input."""
    if data:
        _ALL[data[0] % len(_ALL)].check(data[1:])
