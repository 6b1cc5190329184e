"""The parts of a conversation with a broker: requests in a version, and a transcript of the answers.

A conversation is a function that is called once for each version of its API, with a `Talk` to klamm and with another to
Apache Kafka. Both brokers get the same requests; requests of the set-up are not in the transcript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Self

from tests.interop.wire_conversations.masks import Tree
from tests.interop.wire_conversations.peer import Peer, Topic
from tests.support.wire import Wire

from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.message import fields_of
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.delete_records_response import DeleteRecordsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.schema.produce_response import ProduceResponse

__all__ = ["CONVERSATIONS", "Conversation", "Talk", "conversation"]

ANSWER_SECONDS: Final = 20
CLIENT_ID: Final = "wire"


class Talk:
    """One conversation with one broker in one version of its API."""

    def __init__(self, peer: Peer, name: str, version: int, *, client_id: str = CLIENT_ID) -> None:
        self.peer = peer
        self.prefix = f"{name}-v{version}-"
        self.shared_prefix = f"{name}-shared-"
        self._name = name
        self.version = version
        self.transcript: list[tuple[str, Tree]] = []
        self._client_id = client_id
        self._wire: Wire | None = None
        self._others: list[Talk] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        for other in self._others:
            other.hang_up()

    # -- requests and recorded answers

    def ask(self, request: Message, version: int | None = None) -> Message:
        """Sends a request, records the answer and returns it."""
        self.tell(request, version)
        return self.hear(request, version)

    def tell(self, request: Message, version: int | None = None) -> None:
        """Sends a request without waiting for the answer. Leaves out the fields that its version does not have."""
        assert request.API_KEY is not None
        version = self.version if version is None else version
        _drop_what_is_absent(request, version)
        self.wire.send(ApiKey(request.API_KEY), version, encode(request, version))

    def hear(self, request: Message, version: int | None = None) -> Message:
        """Records and returns the answer to a request that was sent; a closed connection is recorded as an answer."""
        assert request.API_KEY is not None
        api_key = ApiKey(request.API_KEY)
        version = self.version if version is None else version
        label = request.NAME if version == self.version else f"{request.NAME} v{version}"
        response_class = API_SPECS[api_key].response_class()
        try:
            body = self.wire.receive(api_key, version)
        except ConnectionError:
            self.hang_up()
            self.transcript.append((label, "the connection was closed"))
            return response_class()
        except TimeoutError:
            self.hang_up()
            self.transcript.append((label, "no answer came"))
            return response_class()
        response, end = decode(response_class, version, body)
        assert end == len(body), f"the answer to {request} has bytes that its version does not know"
        self.transcript.append((label, self.peer.masks.mask(response, version, (self.prefix, self.shared_prefix))))
        return response

    def note(self, what: str, value: object) -> None:
        """Records a value that is not an answer."""
        self.transcript.append((what, repr(value)))

    def note_answer(self, what: str, response: Message, version: int) -> None:
        """Records an answer to a request that was sent without `ask`."""
        self.transcript.append((what, self.peer.masks.mask(response, version, (self.prefix, self.shared_prefix))))

    def is_about(self, request_class: type[Message]) -> bool:
        """Returns whether the conversation runs in all versions of this request's API."""
        return CONVERSATIONS[self._name.removeprefix("wire-")].api_key == request_class.API_KEY

    def another(self, client_id: str = CLIENT_ID) -> Talk:
        """Returns another connection to the same broker, with the same transcript."""
        other = Talk(self.peer, self._name, self.version, client_id=client_id)
        other.transcript = self.transcript
        self._others.append(other)
        return other

    @property
    def wire(self) -> Wire:
        """The connection; a connection that the broker closed is replaced."""
        if self._wire is None:
            self._wire = Wire(self.peer.bootstrap_servers, self._client_id)
            self._wire.socket.settimeout(ANSWER_SECONDS)
        return self._wire

    def hang_up(self) -> None:
        """Closes the connection."""
        if self._wire is not None:
            self._wire.socket.close()
            self._wire = None

    # -- set-up

    def name(self, suffix: str) -> str:
        """Returns a name that only this conversation in this version uses."""
        return f"{self.prefix}{suffix}"

    def topic(self, suffix: str, partitions: int = 1, **configs: str) -> Topic:
        """Creates a topic of this conversation and version; underscores in configs stand for dots."""
        return self.peer.create_topic(
            self.name(suffix), partitions, {key.replace("_", "."): value for key, value in configs.items()}
        )

    def shared_topic(
        self, suffix: str, partitions: int = 1, *batches: bytes, for_groups: bool = False, **configs: str
    ) -> Topic:
        """Returns a read-only topic for all versions of this conversation, with batches in its partition 0.

        With `for_groups`, the coordinator of consumer groups knows it.
        """

        def make() -> Topic:
            keys = {key.replace("_", "."): value for key, value in configs.items()}
            topic = self.peer.create_topic(name, partitions, keys)
            self.append(topic, *batches)
            if for_groups:
                self.peer.wait_for_groups(topic)
            return topic

        name = f"{self.shared_prefix}{suffix}"
        return self.peer.shared_topic(name, make)

    def append(self, topic: Topic, *batches: bytes, index: int = 0) -> None:
        """Appends batches."""
        for batch in batches:
            data = TopicProduceData(
                name=topic.name, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))]
            )
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
            (answer,) = self.peer.wire.call(ProduceResponse, 9, request).responses
            assert not answer.partition_responses[0].error_code, answer

    def delete_records(self, topic: Topic, before: int, index: int = 0) -> None:
        """Deletes the records before an offset."""
        partition = DeleteRecordsPartition(partition_index=index, offset=before)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[partition])], timeout_ms=10_000
        )
        response = self.peer.wire.call(DeleteRecordsResponse, 2, request)
        assert not response.topics[0].partitions[0].error_code, response

    def delete_topic(self, topic: Topic) -> None:
        """Deletes a topic and waits until the deletion is in effect."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=10_000)
        response = self.peer.wire.call(DeleteTopicsResponse, 6, request)
        assert not response.responses[0].error_code, response
        self.peer.settle()


def _drop_what_is_absent(message: Message, version: int) -> None:
    blank = type(message)()
    for spec in fields_of(type(message)):
        value = getattr(message, spec.name)
        if not spec.present(version):
            setattr(message, spec.name, getattr(blank, spec.name))
        elif isinstance(value, Message):
            _drop_what_is_absent(value, version)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    _drop_what_is_absent(each, version)


class Conversation(NamedTuple):
    """A conversation about one API, with the versions in which it runs."""

    api_key: ApiKey
    versions: range
    hold: Callable[[Talk], None]


CONVERSATIONS: Final[dict[str, Conversation]] = {}
"""All registered conversations, by name."""


def conversation(
    api_key: ApiKey, *, since: int = 0, until: int = 1000
) -> Callable[[Callable[[Talk], None]], Callable[[Talk], None]]:
    """Registers a function as a conversation that runs in all versions of an API, or in a range of them."""
    spec = API_SPECS[api_key]
    versions = range(max(since, spec.min_version), min(until, spec.max_version) + 1)

    def register(function: Callable[[Talk], None]) -> Callable[[Talk], None]:
        name = function.__name__.replace("_", "-")
        assert name not in CONVERSATIONS, name
        CONVERSATIONS[name] = Conversation(api_key, versions, function)
        return function

    return register
