"""Tests the metrics of the log cleaner."""

from __future__ import annotations

from klamm.broker.services.metrics.cleaner_metrics import cleaner_figures
from klamm.protocol.types import Millis
from klamm.storage.cleaner.log_cleaner import CleanerState


def test_the_figures_are_those_of_the_last_look() -> None:
    """The metrics are those of the cleaner's last run; before the first run, there is no time since the last run."""
    figures = cleaner_figures(CleanerState(Millis(1000), 0.567, 2), Millis(1500))
    assert [(figure.name.rpartition("_logcleanermanager_")[2], figure.values) for figure in figures] == [
        ("max_dirty_percent", [((), 56.0)]),
        ("time_since_last_run_ms", [((), 500.0)]),
        ("uncleanable_partitions_count", [((), 2.0)]),
    ]
    assert cleaner_figures(CleanerState(None, 0.0, 0), Millis(1500))[1].values == []
