"""The contract between a coordinator's shard and the runtime that runs it.

A shard makes the decisions for one partition of an internal topic. Its state is of two kinds:

- Durable state is the state in the partition's log. Only `replay` changes it. The runtime calls `replay` for a record
  that was just appended and, after a restart or failover, for the same record read back, so there is only one path.
- Volatile state (the round of a rebalance, pending member ids, parked requests) is never logged and is lost with
  leadership. A decision may change it at once, because only this shard sees it. A change that must wait for the log is
  put into the `Result`, as `on_append`, `on_commit` or `on_failure`.

The runtime processes a `Result` in this order: it arms and cancels the timers, appends the records, replays them, calls
`on_append`, starts the tasks and sends the requests, waits until the high watermark has passed everything written so
far, then releases the replies, publishes the events and calls `on_commit`. If the append fails or the wait times out,
replies to other requests are still released, `on_failure` decides again, and the request itself fails with the mapped
error unless `on_failure` answered it.

The records of one kind of request may linger before they are appended, so that later ones replace them. The shard
keeps these records (`put_aside`), and the runtime takes them back (`take_lingering`) before it decides anything except
a request of that kind. So no other decision ignores them, and requests of that kind read the kept records in addition
to the durable state.

After Apache Kafka's `CoordinatorShard`, `CoordinatorResult` and `CoordinatorRuntime`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NewType, Protocol

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.records import FramedRecords
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId, TopicId

__all__ = [
    "BackgroundTask",
    "ClientContext",
    "CoordinatorRecord",
    "DeletedTopic",
    "EndOfTransaction",
    "RequestToSend",
    "Result",
    "Shard",
    "ReusableAnswer",
    "Ticket",
    "TimerKey",
    "TimerKind",
    "TransactionalWrite",
]

Ticket = NewType("Ticket", int)
"""Identifies one request until it is answered; a parked request keeps its ticket over many decisions."""


class TimerKind:
    """A kind of timer. Kinds are compared by identity, so two kinds cannot be confused."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        """Creates a kind; `name` is for log messages."""
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __deepcopy__(self, memo: object) -> TimerKind:
        return self


class TimerKey(NamedTuple):
    """Identifies a timer of a shard. Arming an armed key moves its deadline."""

    kind: TimerKind
    owner_id: str = ""
    """The group or the transactional id to which it belongs; "" if it belongs to the whole shard."""
    detail: str = ""
    """The member of the group; "" if the timer belongs to the whole group."""


class ClientContext(NamedTuple):
    """The client of a request, and the version of the API that it uses."""

    client_id: str
    client_host: str
    api_version: int


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic: generated messages, and the version in which the value is encoded.

    A value of None is a tombstone.
    """

    key: Message
    value: Message | None
    value_version: int


class DeletedTopic(NamedTuple):
    """A topic that was just deleted; a new topic of the same name has another id."""

    name: str
    topic_id: TopicId


class BackgroundTask(Protocol):
    """Work that would block the event loop for too long, as a value: a class for each kind, its fields are the inputs.

    The runtime calls `run` outside of the loop. `Shard.handle_outcome` then gets the task with the result of `run`, or
    with its exception. By then the state may have changed, so the shard compares epochs before it uses the outcome.
    """

    @property
    def owner_id(self) -> str:
        """The group to which the task belongs."""

    def run(self) -> object:
        """Does the work. It depends on the fields alone, and changes nothing."""


class RequestToSend(Protocol):
    """A request to the leaders of partitions, as a value: a class for each kind, whose fields are the content.

    The runtime sends it. `Shard.handle_outcome` gets the request with the answers.
    """

    @property
    def owner_id(self) -> str:
        """The transactional id to which the request belongs."""


class TransactionalWrite(NamedTuple):
    """The transaction of the records: they count once it is committed.

    `verification_guard` proves that the transaction coordinator verified the transaction (KIP-890).
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verification_guard: int


class EndOfTransaction(NamedTuple):
    """A marker to write instead of records, and to replay with `replay_end_transaction_marker`."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int


class ReusableAnswer(Protocol):
    """The conditions of a decision whose only outcome is a reply and one timer, such as a heartbeat's.

    While the conditions hold, the decision need not be made again.
    """

    def holds(self, now: Millis) -> bool:
        """Returns whether the same request from the same client would be decided in the same way now.

        That means the same reply, the same timer with the same delay, and nothing else. It changes no state and is
        cheap.
        """


class Result:
    """The effects of one decision; the module's docstring explains their order.

    `records` are appended as one batch. With `atomic` False they may be split into several batches, because each record
    is valid alone (expiry, deletion of topics). `replies` answer this request or parked ones; a request whose ticket
    isn't among them stays parked. `timers` are pairs of key and delay; a delay of None cancels. `events` describe what
    happened; no decision depends on them. `tasks` and `requests` are started after the append.
    With a `linger_epoch`, the records and the replies may linger. Of two records with the same key and epoch, the later
    one replaces the other. Such a result has no events, tasks, requests or callbacks.
    With a `transaction`, the records belong to it, or there are no records and a marker ends it.
    `framed` are the first records of an atomic result, already encoded for a batch by a background task; at least one
    more record follows them.
    With a `reusable_answer`, there is only one reply and one timer, and the runtime may give the same answer again.
    """

    __slots__ = (
        "atomic",
        "events",
        "framed",
        "linger_epoch",
        "on_append",
        "on_commit",
        "on_failure",
        "records",
        "replies",
        "requests",
        "reusable_answer",
        "tasks",
        "timers",
        "transaction",
    )

    def __init__(self, *, atomic: bool = True) -> None:
        self.records: list[CoordinatorRecord] = []
        self.framed: FramedRecords | None = None
        self.atomic = atomic
        self.linger_epoch: int | None = None
        self.transaction: TransactionalWrite | EndOfTransaction | None = None
        self.replies: list[tuple[Ticket, Message]] = []
        self.timers: list[tuple[TimerKey, int | None]] = []
        self.events: list[object] = []
        self.tasks: list[BackgroundTask] = []
        self.requests: list[RequestToSend] = []
        self.reusable_answer: ReusableAnswer | None = None
        self.on_append: Callable[[], None] | None = None
        self.on_commit: Callable[[Millis], Result] | None = None
        self.on_failure: Callable[[ErrorCode, Millis], Result] | None = None

    def reply(self, ticket: Ticket, response: Message) -> None:
        """Answers the request of that ticket."""
        self.replies.append((ticket, response))

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Arms a timer that calls `handle_timer` with that key after the delay, instead of at an earlier set time."""
        self.timers.append((key, delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Cancels the timer, if it is armed."""
        self.timers.append((key, None))


class Shard(Protocol):
    """The part of a coordinator for one partition; methods of the concrete class handle the requests.

    Each such method has the shape `handle_x(request, context, ticket, now) -> Result` and may raise `KafkaError`.
    """

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Applies one record of the log to the durable state."""

    def replay_bytes(self, offset: Offset, producer_id: ProducerId, key: bytes, value: bytes | None) -> bool:
        """Applies one undecoded record, if there is a fast path for it, with the same effect as `replay`.

        Returns False and applies nothing if there is none. Only called while the log is loaded, mixed with `replay`.
        """

    def replay_end_transaction_marker(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Applies a transaction marker of the log to the durable state."""

    def put_aside(self, result: Result, limit_bytes: int) -> bool:
        """Keeps the records of a lingering result until `take_lingering`.

        Returns False and keeps nothing if the kept records would exceed `limit_bytes`.
        """

    def take_lingering(self) -> list[CoordinatorRecord]:
        """Returns the kept records, in an order in which they may be appended, and stops keeping them."""

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides what follows from a timer that ran out."""

    def handle_outcome(self, effect: BackgroundTask | RequestToSend, outcome: object, now: Millis) -> Result:
        """Decides what follows from the outcome of a task (its result or exception), or from a request's answers."""

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Derives the volatile state from the durable one after the replay of the whole log, and arms the timers.

        It runs in steps of a few milliseconds, so that the event loop is free in between. Timers and tasks may be
        handled between two steps; requests and changes of the cluster wait for the last step.
        """

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Decides what follows from a change of the cluster; `topics` are all topics that exist now."""

    def on_unloaded(self) -> Result:
        """Answers every parked request with NOT_COORDINATOR: leadership is lost, and the shard will be dropped."""
