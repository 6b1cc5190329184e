"""The metrics of the log cleaner, with the names that Prometheus' JMX exporter gives to Kafka's.

Source: the gauges of `LogCleanerManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.services.metrics.metrics import Figure

if TYPE_CHECKING:
    from klamm.protocol.types import Millis
    from klamm.storage.cleaner.log_cleaner import CleanerState

__all__ = ["cleaner_figures"]

_PREFIX: Final = "kafka_log_logcleanermanager_"


def cleaner_figures(state: CleanerState, now_ms: Millis) -> Sequence[Figure]:
    """Returns the dirty share of the dirtiest log, the time since the last run, and the number of uncleanable
    partitions.

    The time has no value before the first run of the cleaner, for example with `log.cleaner.enable=false`.
    """
    waited = [] if state.looked_ms is None else [((), float(now_ms - state.looked_ms))]
    return [
        Figure(
            f"{_PREFIX}max_dirty_percent",
            "Dirty share of the dirtiest compacted log.",
            (),
            [((), float(int(100 * state.dirtiest_ratio)))],
        ),
        Figure(f"{_PREFIX}time_since_last_run_ms", "Milliseconds since the cleaner looked for work.", (), waited),
        Figure(
            f"{_PREFIX}uncleanable_partitions_count",
            "Partitions that hold something that can't be cleaned.",
            (),
            [((), float(state.uncleanable))],
        ),
    ]
