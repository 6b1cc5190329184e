"""All verbs of members and of `admin`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.scenarios.values import Arguments
from tests.scenarios.verbs import administration, classic, consumer, offsets
from tests.scenarios.world import Ask, Member

__all__ = ["VERBS"]

VERBS: Final[Mapping[str, Callable[[Member, Arguments], Ask]]] = {
    "join": classic.join,
    "sync": classic.sync,
    "heartbeat": classic.heartbeat,
    "leave": classic.leave,
    "consumer-join": consumer.consumer_join,
    "consumer-heartbeat": consumer.consumer_heartbeat,
    "consumer-leave": consumer.consumer_leave,
    "consumer-describe": consumer.consumer_describe,
    "commit": offsets.commit,
    "fetch": offsets.fetch,
    "delete-offsets": offsets.delete_offsets,
    "describe": administration.describe,
    "list": administration.list_groups,
    "delete-group": administration.delete_group,
    "configure": administration.configure,
}
