"""Dead letters: the records whose handler failed for the last time, in a topic, with headers that say why.

The headers with the same names as those of pipelines' dead letters have the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from klamm.worker.errors import ProcessFailure, WorkerError
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.record import Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

__all__ = ["DeadLetters", "dead_letter_headers"]

_PREFIX: Final = "klamm."
_MOST_REASON: Final = 1000
_LARGEST_MESSAGE_BYTES: Final = 1_000_000_000
"""The most that librdkafka accepts for `message.max.bytes`."""


def dead_letter_headers(
    plan: HandlerPlan, group: str, record: Record, error: BaseException
) -> list[tuple[str, bytes | None]]:
    """Returns the record's headers, and those that say why the record is dead and where it comes from."""
    # A process sends the kind of its error as part of the text.
    reason = str(error) if isinstance(error, ProcessFailure) else f"{type(error).__name__}: {error}"
    for note in getattr(error, "__notes__", ()):
        reason = f"{note}: {reason}"
    added = {
        "reason": reason[:_MOST_REASON],
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "handler": plan.name,
        "group": group,
        "attempts": record.attempt,
    }
    # The text of an error may contain half of a surrogate pair, for example from JSON.
    texts = ((_PREFIX + name, str(value).encode("utf-8", "backslashreplace")) for name, value in added.items())
    return [*record.headers, *texts]


class DeadLetters:
    """Writes dead letters with an idempotent producer. `poll` serves what was acknowledged."""

    def __init__(self, settings: dict[str, Any], group: str) -> None:
        from confluent_kafka import Producer

        # The broker decides how large a record may be: its topics had room for it.
        own = {"message.max.bytes": _LARGEST_MESSAGE_BYTES}
        self._producer = Producer({**own, **settings, "enable.idempotence": True, "linger.ms": 5})
        self._group = group

    def bury(
        self, plan: HandlerPlan, record: Record, error: BaseException, done: Callable[[BaseException | None], None]
    ) -> None:
        """Writes a record. Calls `done` from `poll` once the record is acknowledged by all in-sync replicas."""
        assert plan.dead_letters is not None
        topic = plan.dead_letters

        def delivered(problem: KafkaError | None, _message: Message) -> None:
            done(None if problem is None else WorkerError(f"the dead letter can't be written to {topic}: {problem}"))

        headers: Any = dead_letter_headers(plan, self._group, record, error)
        while True:
            try:
                self._producer.produce(topic, record.value, record.key, headers=headers, on_delivery=delivered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def poll(self) -> None:
        """Calls `done` of the records that were acknowledged."""
        self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Waits for all records to be acknowledged."""
        self._producer.flush(seconds)
