"""Reads `__group_history` with an ordinary consumer."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer

__all__ = ["HistoryReader", "Record", "member_ids", "owners", "pauses"]

_PATIENCE_SECONDS = 60

Record = dict[str, Any]


class HistoryReader:
    """A consumer with its own group id, `group`; it keeps all records that it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.group = f"history-{uuid.uuid4().hex[:12]}"
        self.records: list[Record] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": "500",
            }
        )
        self._consumer.subscribe(["__group_history"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def of(self, group: str) -> list[Record]:
        """Returns the records of a group that were read so far."""
        return [record for record in self.records if record["group"] == group]

    def wait_for(self, group: str, condition: Callable[[Record], bool]) -> Record:
        """Returns the first record of the group for which the condition holds. Raises AssertionError after a minute."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            found = next(filter(condition, self.of(group)), None)
            if found is not None:
                return found
            assert time.monotonic() < deadline, f"not in the history of {group}: {self.of(group)}"
            message = self._consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            value, key = message.value(), message.key()
            assert isinstance(value, bytes)
            assert isinstance(key, bytes)
            record: Record = json.loads(value)
            assert record["group"] == key.decode()
            self.records.append(record)


def member_ids(record: Record, client: str) -> list[str]:
    """Returns the member ids that a client id has in the record, before or after the change."""
    members = [*record["members_before"], *record["members_after"]]
    return list(dict.fromkeys(member["member"] for member in members if member["client"] == client))


def owners(record: Record, when: str) -> dict[int, str]:
    """Returns the client id of each partition's owner; `when` is "before" or "after"."""
    return {
        partition: member["client"]
        for member in record[f"members_{when}"]
        for partitions in member["partitions"].values()
        for partition in partitions
    }


def pauses(record: Record) -> dict[str, int]:
    """Returns for each client id how long its member could not read the partitions that it kept, in milliseconds."""
    names = {member["member"]: member["client"] for member in record["members_after"]}
    return {names[pause["member"]]: pause["ms"] for pause in record["pauses"]}
