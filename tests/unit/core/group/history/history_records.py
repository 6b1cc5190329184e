"""Builds records of `__group_history` for tests, in the format of docs/reference/group-history.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["cause", "change", "member", "member_id"]

NOON_MS = 1_767_182_400_000


def member_id(name: str) -> str:
    """Returns the member id of the client with this name."""
    return f"{name}-5f0c8a52-6f1e-4b3d-9c2a-0d1e2f3a4b5c"


def member(name: str, **partitions: list[int]) -> dict[str, Any]:
    """Returns a member with its client id and its partitions by topic."""
    return {
        "member": member_id(name),
        "instance": None,
        "client": name,
        "host": "/10.0.0.1",
        "partitions": partitions,
    }


def cause(code: str, name: str | None, text: str, at_ms: int = NOON_MS) -> dict[str, Any]:
    """Returns a cause; {} in the text is replaced by the member id."""
    member = member_id(name) if name is not None else None
    return {"code": code, "member": member, "text": text.format(member), "at_ms": at_ms}


def change(  # one parameter for each field that tests vary
    *,
    group: str = "orders",
    epoch: int = 7,
    before: Sequence[Mapping[str, Any]] = (),
    after: Sequence[Mapping[str, Any]] = (),
    causes: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> bytes:
    """Returns the value of a record. The moves follow from the members before and after, unless they are given."""
    owners_before, owners_after = _owners(before), _owners(after)
    moved = [
        {
            "topic": topic,
            "partition": partition,
            "from": owners_before.get((topic, partition)),
            "to": owners_after.get((topic, partition)),
            "committed_offset": 100 + partition,
        }
        for topic, partition in sorted(owners_before.keys() | owners_after.keys())
        if owners_before.get((topic, partition)) != owners_after.get((topic, partition))
    ]
    record = {
        "version": 1,
        "group": group,
        "type": "classic",
        "coordinator_epoch": 3,
        "sequence": epoch,
        "previous_epoch": epoch - 1,
        "epoch": epoch,
        "outcome": "stable",
        "causes": list(causes) or [cause("admin", None, "somebody wanted it")],
        "assignor": "range",
        "started_ms": NOON_MS,
        "finished_ms": NOON_MS + 1_200,
        "members_before": list(before),
        "members_after": list(after),
        "moved": moved,
        "pauses": [],
    }
    return json.dumps(record | fields).encode()


def _owners(members: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): each["member"]
        for each in members
        for topic, partitions in each["partitions"].items()
        for partition in partitions
    }
