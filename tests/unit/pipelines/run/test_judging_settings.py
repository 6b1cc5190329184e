"""Tests which settings of a session belong to the rule of what is bad."""

from __future__ import annotations

from klamm.pipelines.run.judging_settings import chosen_settings
from klamm.spark.session_builder import settings_for


def test_settings_that_may_change_an_expression() -> None:
    """The time zone, ANSI's rules and every setting of SQL that is unknown here belong to the rule. Settings of speed,
    of storage and of catalogs, and those outside of SQL, do not."""
    judging = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.caseSensitive": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    }
    others = {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.stateStore.providerClass": "rocksdb",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.catalog.lake.password": "secret",
        "spark.executor.memory": "4g",
    }

    assert chosen_settings({**others, **judging}) == judging


def test_klamms_own_settings_are_of_speed() -> None:
    """The settings of a session of klamm change no expression: another version may choose others."""
    assert chosen_settings(settings_for("local[2]")) == {}
