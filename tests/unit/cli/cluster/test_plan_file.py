"""Plans of replicas as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.cli.cluster.plan_file import plan_text, read_plan
from klamm.cli.errors import UsageError


def _file(folder: Path, text: str) -> Path:
    path = folder / "plan.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The text has Kafka's format, one partition after the other in order."""
    plan = {("orders", 1): (2, 3), ("bills", 0): (1,)}
    text = plan_text(plan)
    assert json.loads(text) == {
        "version": 1,
        "partitions": [
            {"topic": "bills", "partition": 0, "replicas": [1]},
            {"topic": "orders", "partition": 1, "replicas": [2, 3]},
        ],
    }
    assert read_plan(_file(tmp_path, text)) == plan


def test_a_plan_of_kafkas_tool_is_read(tmp_path: Path) -> None:
    """kafka-reassign-partitions writes log_dirs, which name no folder."""
    text = '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    assert read_plan(_file(tmp_path, text)) == {("a", 0): (1, 2)}


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ('[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/data"]}]', "a-0 names log_dirs"),
        ('[{"topic":"a","partition":0,"replicas":[]}]', "a-0 needs the ids of brokers"),
        ('[{"topic":"a","partition":0,"replicas":[1,1]}]', "a-0 needs the ids of brokers"),
        ('[{"topic":"a","partition":0,"replicas":["1"]}]', "a-0 needs the ids of brokers"),
        ('[{"topic":"a","partition":0,"replicas":[2147483648]}]', "a-0 needs the ids of brokers"),
        ('[{"topic":"a","partition":true,"replicas":[1]}]', "a value of a wrong type"),
        ('[{"topic":"a","partition":0}]', "'replicas'"),
        (
            '[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]',
            "a-0 is named twice",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, partitions: str, complaint: str) -> None:
    """The error tells what is wrong, and shows the format."""
    with pytest.raises(UsageError, match=complaint) as refused:
        read_plan(_file(tmp_path, f'{{"version": 1, "partitions": {partitions}}}'))
    assert '"replicas": [1, 2]' in str(refused.value)


def test_text_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    """A file that is missing, is no JSON, or has another version."""
    with pytest.raises(UsageError, match="No such file"):
        read_plan(tmp_path / "missing.json")
    with pytest.raises(UsageError, match="is no JSON"):
        read_plan(_file(tmp_path, "orders"))
    with pytest.raises(UsageError, match="version 2 instead of 1"):
        read_plan(_file(tmp_path, '{"version": 2, "partitions": []}'))
    with pytest.raises(UsageError, match="is no plan"):
        read_plan(_file(tmp_path, "[1]"))
