"""Plans of replicas as JSON, in the format of Apache Kafka's kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from klamm.cli.errors import UsageError
from klamm.insight.words import PartitionKey

__all__ = ["plan_text", "read_plan"]

_VERSION: Final = 1
_ANY_FOLDER: Final = "any"
_LARGEST_ID: Final = 2**31 - 1


def plan_text(plan: Mapping[PartitionKey, Sequence[int]]) -> str:
    """Returns the plan as one line of JSON."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(replicas)}
        for (topic, index), replicas in sorted(plan.items())
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions})


def read_plan(path: Path) -> dict[PartitionKey, tuple[int, ...]]:
    """Returns the plan of a file. Raises UsageError for a file that can't be read or is no plan."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--file {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"--file {path} is no JSON: {error}") from None
    try:
        return _plan(document)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"--file {path} is no plan ({error}): it needs "
            '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}'
        ) from None


def _plan(document: Any) -> dict[PartitionKey, tuple[int, ...]]:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']} instead of {_VERSION}")
    plan: dict[PartitionKey, tuple[int, ...]] = {}
    for each in document["partitions"]:
        topic, index, replicas = each["topic"], each["partition"], each["replicas"]
        if not isinstance(topic, str) or not _is_id(index) or not isinstance(replicas, list):
            raise TypeError(f"{each} has a value of a wrong type")
        if not replicas or not all(map(_is_id, replicas)) or len(set(replicas)) < len(replicas):
            raise ValueError(f"{topic}-{index} needs the ids of brokers, each once")
        if set(each.get("log_dirs", ())) - {_ANY_FOLDER}:
            raise ValueError(f"{topic}-{index} names log_dirs, which this command does not set")
        if (topic, index) in plan:
            raise ValueError(f"{topic}-{index} is named twice")
        plan[topic, index] = tuple(replicas)
    return plan


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_ID
