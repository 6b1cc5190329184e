"""The common part of all simulated clients."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from tests.simulation.brokers.clients.client import Destination
from tests.simulation.brokers.model import Batch

from klamm.client.cluster_view import error_code
from klamm.client.config import ClientConfig, IsolationLevel
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld

__all__ = ["PASSING", "PAUSE_S", "Participant", "Refused"]

M = TypeVar("M", bound=Message)

PAUSE_S = 0.03
"""The pause of a client before its next attempt, in seconds."""

PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors after which a client repeats its request."""


class Refused(Exception):
    """An answer with an error that a repeated request does not fix."""

    def __init__(self, request: str, code: ErrorCode) -> None:
        super().__init__(f"{request} was answered {code.name}")
        self.code = code


def error_code_of(answer: Message) -> tuple[int, ...]:
    """Returns the only error code of an answer, as a tuple."""
    return (answer.error_code,)  # type: ignore[attr-defined]


class Participant(ABC):
    """A client of the world. It works until the world tells it to finish, and then sets `is_finished`."""

    is_reader = False
    """Whether the client finishes only after all writers have finished."""

    def __init__(self, world: ClientWorld, name: str, isolation_level: IsolationLevel = "read_uncommitted") -> None:
        self.name = name
        self.world = world
        self.random = world.loop.random
        self.is_finished = False
        self.unanswered = 0
        """Number of requests that were repeated because their connection failed. The broker may handle them later."""
        draw = self.random
        most_bytes, most_of_partition = draw.choice((300, 2_000, 1_000_000)), draw.choice((100, 1_000, 1_000_000))
        if world.plan.has_large_batches:
            most_bytes, most_of_partition = (world.sizes.choice((70_000, 150_000, 1_000_000)) for _ in range(2))
        config = ClientConfig(
            bootstrap_servers=world.addresses,
            client_id=name,
            request_timeout_ms=world.plan.request_timeout_ms,
            default_api_timeout_ms=600_000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=100,
            fetch_max_bytes=most_bytes,
            max_partition_fetch_bytes=most_of_partition,
            fetch_max_wait_ms=draw.choice((0, 20, 300)),
            fetch_min_bytes=draw.choice((1, 1, min(400, most_bytes, most_of_partition))),
            isolation_level=isolation_level,
        )
        self.client = world.make_client(config, self.ceilings())
        world.add(self)

    def ceilings(self) -> Mapping[int, int]:
        """Returns the highest version that this client knows of each API, by API key."""
        return {}

    @abstractmethod
    async def live(self) -> None:
        """Runs the client until it is finished."""

    def take_larger_answers(self) -> None:
        """Raises the size limits of answers: at the end there is much to read, and small pieces show nothing new."""
        config = self.client.config
        self.client.config = replace(config, fetch_max_bytes=1_000_000, max_partition_fetch_bytes=1_000_000)

    async def rest(self, reason: object = "") -> None:
        """Waits a little before the next attempt."""
        if reason:
            self.note("tries again: %s", reason)
        await asyncio.sleep(PAUSE_S)

    async def until_answered(
        self,
        request: Message,
        answer: type[M],
        codes_of: Callable[[M], Iterable[int]] = error_code_of,
        *,
        to: Destination | None = None,
    ) -> M:
        """Repeats a request until the answer has no temporary error. Raises `Refused` for other errors."""
        while True:
            try:
                found = await self.client.ask(request, answer, to)
            except ConnectionFailed as error:
                self.unanswered += 1
                self.client.forget(to)
                await self.rest(error)
                continue
            codes = {error_code(code) for code in codes_of(found)} - {ErrorCode.NONE}
            if not codes:
                return found
            if not codes <= PASSING:
                raise Refused(type(request).__name__, min(codes - PASSING))
            self.client.forget(to)
            await self.rest(min(codes))

    def note(self, template: str, *values: object) -> None:
        """Adds a line to the world's notes."""
        self.world.notes.add(f"{self.name} {template}", *map(_in_words, values))


def _in_words(value: object) -> object:
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, Batch):
        return b" ".join(value.values).decode()
    return value
