"""Tests the settings of klamm's Spark session."""

from __future__ import annotations

from klamm.spark.session_builder import settings_for


def test_a_local_session_shuffles_into_as_many_parts_as_it_has_threads() -> None:
    """A local session has as many shuffle partitions as threads; `local[2,4]` means two threads and four attempts a
    task."""
    assert settings_for("local[2,4]")["spark.sql.shuffle.partitions"] == "2"
    assert settings_for("local")["spark.sql.shuffle.partitions"] == "1"
    assert int(settings_for("local[*]")["spark.sql.shuffle.partitions"]) >= 1


def test_a_cluster_keeps_its_own_driver_address_and_shuffle() -> None:
    """On a cluster, klamm leaves the driver address and the number of shuffle partitions to the cluster."""
    settings = settings_for("spark://master:7077")

    assert "spark.driver.host" not in settings
    assert "spark.sql.shuffle.partitions" not in settings
