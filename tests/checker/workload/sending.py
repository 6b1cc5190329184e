"""Sends records and records the outcome of each, for plain and transactional producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer
from tests.checker.history import Outcome, Recorder, Send, Sent
from tests.checker.workload.worker import Setting

__all__ = ["Operation", "send", "value_of"]

_NEVER_SENT = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
}
"""Errors after which a record is certainly not in the log. Timeouts and purges are not among them."""


_PADDING = " " + "x" * 500
"""Makes records large enough to fill segments."""


def value_of(content: str | bytes | memoryview) -> int:
    """Returns the value in the content of a record that `send` sent."""
    text = bytes(content) if isinstance(content, memoryview) else content
    return int(text.split(maxsplit=1)[0])


class Operation:
    """Some records in flight. The event `Sent` is recorded when the last of them has its answer."""

    def __init__(self, recorder: Recorder, process: str, number: int, count: int) -> None:
        self._recorder = recorder
        self._process = process
        self._number = number
        self._outcomes: list[Outcome] = ["unknown"] * count
        self._offsets: list[int | None] = [None] * count
        self._errors: set[str] = set()
        self._left = count

    @property
    def is_done(self) -> bool:
        """Whether all records have their answers."""
        return self._left == 0

    @property
    def is_ok(self) -> bool:
        """Whether all records are acknowledged."""
        return all(outcome == "ok" for outcome in self._outcomes)

    def answered(self, place: int) -> Callable[[KafkaError | None, Message], None]:
        """Returns the delivery callback of one record."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                # The broker does not know the offset of a retry that it recognizes only as an old duplicate.
                self._outcomes[place], self._offsets[place] = "ok", None if offset is None or offset < 0 else offset
            else:
                self._errors.add(error.name())
                self._outcomes[place] = "failed" if error.code() in _NEVER_SENT else "unknown"
            self._left -= 1
            if self._left == 0:
                event = Sent(
                    self._process,
                    self._number,
                    tuple(self._outcomes),
                    tuple(self._offsets),
                    tuple(sorted(self._errors)),
                )
                self._recorder.record(event)

        return delivered


def send(
    setting: Setting,
    process: str,
    producer: Producer,
    partitions: Sequence[str],
    *,
    transaction: int | None = None,
    sources: Sequence[int] = (),
) -> Operation:
    """Sends one record to each of `partitions`, in this order. Raises KafkaException if the client refuses one."""
    records = tuple((partition, setting.next_value()) for partition in partitions)
    number = setting.next_operation()
    setting.recorder.record(Send(process, number, records, transaction, tuple(sources)))
    operation = Operation(setting.recorder, process, number, len(records))
    for place, (partition, value) in enumerate(records):
        topic, _, index = partition.rpartition("-")
        producer.produce(topic, f"{value}{_PADDING}", partition=int(index), on_delivery=operation.answered(place))
    return operation
