"""A klamm with a planted bug: `python -m tests.checker.faulty_broker serve …`. The checker must find what it does."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final

from klamm.broker.partitions import partition
from klamm.cli.main import main
from klamm.protocol.types import Offset

__all__ = ["FAULTY_KLAMM"]

FAULTY_KLAMM: Final = (sys.executable, "-m", "tests.checker.faulty_broker")
"""The command line that starts this klamm instead of the installed one."""


def _own_log_only(
    current: Offset,
    leader_offset: Offset,
    follower_offsets: Collection[Offset],
    in_sync_replicas: int,
    min_in_sync_replicas: int,
) -> Offset:
    """Returns the high watermark of a leader that acknowledges records before its followers hold them."""
    return max(current, leader_offset)


if __name__ == "__main__":
    vars(partition)["next_high_watermark"] = _own_log_only
    sys.exit(main())
