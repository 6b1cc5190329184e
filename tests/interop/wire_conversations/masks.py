"""Turns an answer into a tree that can be compared; a mask replaces each value that always differs between brokers.

Masked are topic ids, the cluster's id, ports, UUIDs in member ids, ids of fetch sessions and new producers, current
times, and sizes of disks.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from typing import Final, TypeAlias

from klamm.protocol.codec import Message
from klamm.protocol.errors import KafkaError
from klamm.protocol.message import ZERO_UUID, FieldSpec, fields_of
from klamm.protocol.record_batch import COMPRESSION_MASK, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.records import decode_batch

__all__ = ["Masks", "Tree"]

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | int | float | bool | None"

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MADE_UP_ID: Final = re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])")
"""The id that a broker makes for a member of the consumer protocol: a `Uuid` in base64."""
KAFKA_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
TIME_NEAR_NOW: Final = re.compile(r"\b\d{13}\b")
BEFORE_ALL_TIMES: Final = re.compile(r"-922337\d{13}\b")
NOW_MS: Final = 10_800_000
"""A timestamp within this distance from the current time counts as the current time."""
ALWAYS_OWN: Final = {
    "cluster_id",
    "finalized_features_epoch",
    "log_dir",
    "producer_id",
    "session_id",
    "total_bytes",
    "usable_bytes",
}
OWN_IN: Final = {"DescribeQuorumResponse": {"high_watermark", "log_end_offset", "leader_epoch", "port"}}
"""Fields that always differ in one type of answer, but not in other types."""
UNORDERED: Final = {
    "AddPartitionsToTxnTopicResult.results_by_partition",
    "AlterReplicaLogDirTopicResult.partitions",
    "AlterUserScramCredentialsResponse.results",
    "ApiVersionsResponse.finalized_features",
    "ApiVersionsResponse.supported_features",
    "Assignment.topic_partitions",
    "ConsumerGroupDescribeResponse.groups",
    "CreatePartitionsResponse.results",
    "CreateTopicsResponse.topics",
    "DeleteGroupsResponse.results",
    "DeleteRecordsResponse.topics",
    "DeleteRecordsTopicResult.partitions",
    "DeleteTopicsResponse.responses",
    "DescribeLogDirsTopic.partitions",
    "DescribeUserScramCredentialsResponse.results",
    "DescribedGroup.members",
    "JoinGroupResponse.members",
    "ListOffsetsResponse.topics",
    "ListOffsetsTopicResponse.partitions",
    "ListGroupsResponse.groups",
    "Member.subscribed_topic_names",
    "MetadataResponse.topics",
    "OffsetFetchResponse.topics",
    "OffsetFetchResponseGroup.topics",
    "OffsetFetchResponseTopic.partitions",
    "OffsetFetchResponseTopics.partitions",
    "ProduceResponse.responses",
    "TopicData.partitions",
    "TopicPartitions.partitions",
    "TopicProduceResponse.partition_responses",
    "TransactionState.topics",
    "WritableTxnMarkerTopicResult.partitions",
}
"""Lists whose order in Apache Kafka is that of a hash map, or that Kafka collects from several answers."""
OTHERS: Final = re.compile(r"(settled-\d+|__\w+)$")


class Masks:
    """The masks for the answers of a broker or of a cluster; they learn topic ids from the answers."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports
        self._topics: dict[bytes, str] = {}
        self._texts: dict[str, str] = {}
        self._own = ALWAYS_OWN

    def learn_topic(self, name: str, topic_id: bytes) -> None:
        """Remembers the topic of this id."""
        self._topics[topic_id] = name

    def learn_text(self, text: str, mask: str) -> None:
        """Remembers a text that this broker generated, and its mask."""
        self._texts[text] = mask

    def mask(self, message: Message, version: int, prefixes: tuple[str, ...]) -> Tree:
        """Returns the tree of an answer, without elements of conversations other than those with `prefixes`."""
        self._learn(message)
        self._own = ALWAYS_OWN | OWN_IN.get(message.NAME, set())
        return {spec.name: self._field(message, spec, version, prefixes) for spec in _present(message, version)}

    def _learn(self, message: Message) -> None:
        name, topic_id = getattr(message, "name", None), getattr(message, "topic_id", ZERO_UUID)
        if name and topic_id != ZERO_UUID:
            self.learn_topic(name, topic_id)
        for spec in fields_of(type(message)):
            value = getattr(message, spec.name)
            if isinstance(value, list):
                for each in value:
                    if isinstance(each, Message):
                        self._learn(each)

    def _field(self, message: Message, spec: FieldSpec, version: int, prefixes: tuple[str, ...]) -> Tree:
        value = getattr(message, spec.name)
        if message.NAME == "ConsumerGroupHeartbeatResponse" and isinstance(value, str):
            value = MADE_UP_ID.sub("<member id>", value)
        if spec.name == "member_id" and isinstance(value, str) and KAFKA_UUID.fullmatch(value):
            value = "<member id>"
        if isinstance(value, list):
            listed = [self._value(spec, each, version, prefixes) for each in value if not _is_foreign(each, prefixes)]
            if f"{message.NAME or type(message).__name__}.{spec.name}" in UNORDERED:
                listed.sort(key=repr)
            return listed
        return self._value(spec, value, version, prefixes)

    def _value(self, spec: FieldSpec, value: object, version: int, prefixes: tuple[str, ...]) -> Tree:
        if isinstance(value, Message):
            return {each.name: self._field(value, each, version, prefixes) for each in _present(value, version)}
        if isinstance(value, bytes | memoryview):
            return self._bytes(spec, value)
        if isinstance(value, str):
            return f"<{spec.name}>" if spec.name in ALWAYS_OWN else self._text(value, prefixes)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(spec.name, value)
        return value  # type: ignore[return-value]

    def _bytes(self, spec: FieldSpec, value: bytes | memoryview) -> Tree:
        if spec.element == "uuid":
            return self._topic(bytes(value))
        if spec.element == "records":
            return list(self._batches(memoryview(value)))
        return bytes(value).hex(" ")

    def _topic(self, topic_id: bytes) -> str:
        if topic_id == ZERO_UUID:
            return "<no id>"
        name = self._topics.get(topic_id)
        return topic_id.hex() if name is None else "<id of a topic>"

    def _number(self, name: str, value: int) -> Tree:
        if name in self._own and value >= (name in ("session_id", "leader_epoch")):
            return f"<{name}>"
        if name == "port" and value in self._ports:
            return "<port>"
        if name.endswith(("timestamp", "_ms")) and abs(value - time.time() * 1000) < NOW_MS:
            return "<now>"
        return value

    def _text(self, text: str, prefixes: tuple[str, ...]) -> str:
        for own, mask in self._texts.items():
            text = text.replace(own, mask)
        text = UUID.sub("<uuid>", text)
        for prefix in prefixes:
            text = text.replace(prefix, "~")
        text = TIME_NEAR_NOW.sub(self._time_near_now, BEFORE_ALL_TIMES.sub("<long ago>", text))
        for topic_id in self._topics:
            text = text.replace(base64.urlsafe_b64encode(topic_id).decode().rstrip("="), "<topic id>")
        return text

    @staticmethod
    def _time_near_now(match: re.Match[str]) -> str:
        return "<now>" if abs(int(match[0]) - time.time() * 1000) < NOW_MS else match[0]

    def _batches(self, view: memoryview) -> Iterator[Tree]:
        position = 0
        while position < len(view):
            left = len(view) - position
            if left < HEADER_SIZE_BYTES:
                yield f"{left} bytes of a batch"
                return
            header = read_batch_header(view, position)
            if header.batch_length + LOG_OVERHEAD_BYTES > left:
                yield f"{left} of {header.batch_length + LOG_OVERHEAD_BYTES} bytes of a batch at {header.base_offset}"
                return
            fields: dict[str, Tree] = {
                name: self._number(name, value) for name, value in header._asdict().items() if name != "crc"
            }
            if header.attributes & COMPRESSION_MASK:
                del fields["batch_length"]  # depends on the compressor
            fields["records"] = self._records(view, position)
            yield fields
            position += header.batch_length + LOG_OVERHEAD_BYTES

    def _records(self, view: memoryview, position: int) -> Tree:
        try:
            return [
                f"{record.offset} {self._number('timestamp', record.timestamp_ms)} {record.key!r} {record.value!r}"
                for record in decode_batch(view, position)
            ]
        except KafkaError as error:
            return f"can't be opened: {error.code.name}"


def _present(message: Message, version: int) -> list[FieldSpec]:
    return [spec for spec in fields_of(type(message)) if spec.present(version)]


def _is_foreign(element: object, prefixes: tuple[str, ...]) -> bool:
    """Returns whether an element of a list belongs to another conversation, or is an internal topic of the broker."""
    for field in ("name", "group_id", "group", "topic"):
        name = getattr(element, field, None)
        if isinstance(name, str) and name:
            return (name.startswith("wire-") and not name.startswith(prefixes)) or OTHERS.match(name) is not None
    return False
