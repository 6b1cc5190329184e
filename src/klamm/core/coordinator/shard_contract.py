"""What a coordinator's shard is, and what it hands to the runtime that turns it.

A shard decides for one partition of an internal topic. Its state is of two kinds:

- Durable state is what the partition's log says. It changes in `replay` and nowhere else; the runtime calls `replay`
  for a record just appended and, after a restart or failover, for the same record read back, so there is no second
  path.
- Volatile state (the round of a rebalance, pending member ids, parked requests) is never logged and is lost with
  leadership. A decision may change it at once, because nobody but this shard sees it; where a change must not outrun
  the log it waits in the `Result` for its moment: `on_append`, `on_commit`, or `on_failure`.

The runtime does with a `Result`, in this order: arms and cancels the timers, appends the records, replays them, calls
`on_append`, starts the tasks, waits until the high watermark has passed everything written so far, then releases the
replies, publishes the events and calls `on_commit`. If the append fails or the wait times out, replies to other
requests are released all the same, `on_failure` decides again, and the request itself fails with the mapped error
unless `on_failure` answered it.

The records of one kind of request may linger before they are appended, so that later ones replace them: the shard
keeps them aside (`put_aside`), and the runtime takes them back (`take_lingering`) before anything but a request of that
kind is decided. So nobody else decides without them, and that kind looks at what is kept aside besides the durable
state.

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
    "Result",
    "Shard",
    "ReusableAnswer",
    "Ticket",
    "TimerKey",
    "TimerKind",
    "TransactionalWrite",
]

Ticket = NewType("Ticket", int)
"""Stands for one request until it has its answer; a parked request keeps it over many decisions."""


class TimerKind:
    """A kind of timer, or of background task. Kinds are compared by identity, so no two of them can be mixed up."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        """`name` is for people who read a log."""
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __deepcopy__(self, memo: object) -> TimerKind:
        return self


class TimerKey(NamedTuple):
    """Names a timer or a background task of a shard. Arming a key that is armed already moves its deadline."""

    kind: TimerKind
    owner_id: str = ""
    """The group or the transactional id that it belongs to; "" if it belongs to the whole shard."""
    detail: str | int = ""
    """The member of the group, or the epoch that a task was started in."""


class ClientContext(NamedTuple):
    """Who asks, and in which version of the API."""

    client_id: str
    client_host: str
    api_version: int


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic: generated messages, and the version in which the value travels.

    A value of None is a tombstone.
    """

    key: Message
    value: Message | None
    value_version: int


class DeletedTopic(NamedTuple):
    """A topic that has just been deleted; a new one of the same name has another id."""

    name: str
    topic_id: TopicId


class BackgroundTask(NamedTuple):
    """Work that would hold the event loop for too long: a pure function without arguments, run elsewhere.

    What it returns or raises comes back through `Shard.handle_task`, with the key. By then the world may have moved
    on: the shard compares epochs before it believes the outcome.
    """

    key: TimerKey
    run: Callable[[], object]


class TransactionalWrite(NamedTuple):
    """The transaction that records belong to: they count once it is committed.

    `verification_guard` says that the transaction coordinator knows of it (KIP-890).
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verification_guard: int


class EndOfTransaction(NamedTuple):
    """A marker that is to be written instead of records, and replayed with `replay_end_transaction_marker`."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int


class ReusableAnswer(Protocol):
    """What a decision stood on from which nothing followed but a reply to the request and one timer: a heartbeat's.

    While it holds, the decision need not be made again.
    """

    def holds(self, now: Millis) -> bool:
        """Whether the same request from the same client would be decided the same way at this moment: the same reply,
        the same timer armed for as long, and nothing else. It changes nothing and costs next to nothing.
        """


class Result:
    """What one decision wants done; the module's docstring says in which order.

    `records` are appended as one batch; with `atomic` False they may be spread over several, each record alone being
    right (expiry, deletion of topics). `replies` answer this request or others that were parked; a request whose
    ticket isn't among them stays parked. `timers` is a sequence of keys and delays, a delay of None cancels. `events`
    say what happened, for whoever wants to know; nothing depends on them. `tasks` are started after the append.
    With a `linger_epoch` the records may linger, and the replies with them; of two records of one key the later stands
    for both if they have the same epoch. Such a result has no events, tasks or callbacks.
    With a `transaction` the records belong to it, or there are none and it ends with a marker.
    `framed` are the first of an atomic result's records as a batch holds them, where a background task has worked that
    out; at least one more comes after them.
    With a `standing` there is nothing but one reply and one timer, and the runtime may give the same answer again.
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
        self.reusable_answer: ReusableAnswer | None = None
        self.on_append: Callable[[], None] | None = None
        self.on_commit: Callable[[Millis], Result] | None = None
        self.on_failure: Callable[[ErrorCode, Millis], Result] | None = None

    def reply(self, ticket: Ticket, response: Message) -> None:
        """Answer the request of that ticket."""
        self.replies.append((ticket, response))

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Have `handle_timer` called with that key once the delay has passed, instead of any time named before."""
        self.timers.append((key, delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Forget the timer, if it is armed."""
        self.timers.append((key, None))


class Shard(Protocol):
    """The part of a coordinator that stands on one partition; requests come in by methods of the concrete class.

    Each such method has the shape `handle_x(request, context, ticket, now) -> Result` and may raise `KafkaError`.
    """

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Apply one record of the log to the durable state."""

    def replay_bytes(self, offset: Offset, producer_id: ProducerId, key: bytes, value: bytes | None) -> bool:
        """Apply one record as it lies in the log, if there is a short way for it; it ends where `replay` would.

        False, and nothing is applied, if there is none. Only called while the log is loaded, in turn with `replay`.
        """

    def replay_end_transaction_marker(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Apply a transaction marker of the log to the durable state."""

    def put_aside(self, result: Result, limit_bytes: int) -> bool:
        """Keep the records of a result that lingers, until `take_lingering`.

        False, and nothing is kept, if more than `limit_bytes` would be.
        """

    def take_lingering(self) -> list[CoordinatorRecord]:
        """The records that were kept aside, in an order in which they may be appended; none are kept any more."""

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decide what follows from a timer that has run out."""

    def handle_task(self, key: TimerKey, outcome: object, now: Millis) -> Result:
        """Decide what follows from what a background task returned; an exception is what it raised."""

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Derive the volatile state from the durable one after the log has been replayed to its end, and arm the
        timers.

        It comes in steps of a few milliseconds, so that the event loop is free in between. Timers and tasks may come
        back between two steps; requests and changes of the cluster wait for the last one.
        """

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Decide what follows from a change of the cluster: `topics` is all there is now."""

    def on_unloaded(self) -> Result:
        """Answer every parked request with NOT_COORDINATOR: leadership is gone, and the shard will be dropped."""
