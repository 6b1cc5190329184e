"""Tests how klamm finds the id of the Spark application that a process belongs to."""

from __future__ import annotations

import pytest

from klamm.spark.application import application_id


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"KLAMM_SPARK_APPLICATION_ID": "local-1", "SPARK_APPLICATION_ID": "spark-2"}, "local-1"),
        ({"SPARK_APPLICATION_ID": "spark-2"}, "spark-2"),
        ({"CONTAINER_ID": "container_1700000000000_0042_01_000001"}, "application_1700000000000_0042"),
        ({"CONTAINER_ID": "container_e17_1700000000000_0042_01_000001"}, "application_1700000000000_0042"),
    ],
)
def test_who_tells(environment: dict[str, str], expected: str) -> None:
    """The application id comes from klamm's own variable, or else from Kubernetes' variable or YARN's container id."""
    assert application_id(environment) == expected


def test_without_anybody_who_tells_it_is_the_driver() -> None:
    """Without such a variable, the application id is made of the driver's host name and process id."""
    assert application_id({}).rpartition("-")[2].isdecimal()
