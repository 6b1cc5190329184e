"""The state of one scenario on one broker: its topics, groups, members, and member ids.

Names on the broker begin with the scenario's name, so that many scenarios share a broker. Outcomes show the short names
of the scenario.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tests.interop.wire_conversations.peer import Peer
from tests.scenarios.language import ScenarioError
from tests.scenarios.values import Partitions, show_partitions
from tests.support.wire import Wire

from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.message import Message
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_partitions_response import CreatePartitionsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse

__all__ = ["ADMIN", "Answer", "Ask", "Member", "Pending", "World"]

ADMIN: Final = "admin"
"""The client that is in no group."""
UNTOLD: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
IDS: Final = {"none": "", "nobody": "nobody"}
"""Member ids that belong to no member."""
APPLIED_SECONDS: Final = 0.2
"""Maximum time until a broker's coordinators know a topic that its clients know."""


def _nothing(response: Message) -> None:
    """Does nothing: members remember nothing from most answers."""


class Ask(NamedTuple):
    """A request, the text form of its answer, and the effect of the answer on the member."""

    request: Message
    version: int
    tell: Callable[[Message], str]
    learn: Callable[[Message], None] = _nothing


class Pending(NamedTuple):
    """A request that waits for its answer."""

    member: Member
    verb: str
    wire: Wire
    ask: Ask

    @property
    def api_key(self) -> ApiKey:
        """Returns the API key of the request."""
        assert self.ask.request.API_KEY is not None
        return ApiKey(self.ask.request.API_KEY)

    def receive(self) -> Answer:
        """Receives the answer and lets the member learn from it."""
        try:
            body = self.wire.receive(self.api_key, self.ask.version)
        except ConnectionError:
            self.member.hang_up(self.wire)
            return Answer(self, None)
        response_class: type[Message] = API_SPECS[self.api_key].response_class()
        response, end = decode(response_class, self.ask.version, body)
        assert end == len(body), f"the answer to {self.verb} has bytes that its version does not know"
        self.ask.learn(response)
        return Answer(self, response)


class Answer(NamedTuple):
    """The broker's answer to a request; the response is None if the broker closed the connection."""

    pending: Pending
    response: Message | None

    @property
    def text(self) -> str:
        """Returns the answer as text, with names for all member ids that the scenario knows by now."""
        return "the connection was closed" if self.response is None else self.pending.ask.tell(self.response)


class Member:
    """A client, with the values that it remembers from its answers."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.defaults: dict[str, str] = {}
        """Default arguments of the member's requests."""
        self.member_id = ""
        self.generation = -1
        """The generation; in the consumer protocol the member epoch."""
        self.protocol = "range"
        """The protocol that the classic group has selected."""
        self.assigned: Partitions = {}
        """The partitions that the coordinator has assigned to the member."""
        self._wires: list[Wire] = []

    def send(self, verb: str, ask: Ask) -> Pending:
        """Sends a request on a connection without a pending request."""
        busy = [pending.wire for pending in self.world.pending if pending.member is self]
        wire = next((wire for wire in self._wires if wire not in busy), None)
        if wire is None:
            wire = Wire(self.world.bootstrap_servers, self.name)
            self._wires.append(wire)
        pending = Pending(self, verb, wire, ask)
        wire.send(pending.api_key, ask.version, encode(ask.request, ask.version))
        return pending

    def hang_up(self, *wires: Wire) -> None:
        """Closes the given connections of the member, by default all."""
        for wire in wires or tuple(self._wires):
            self._wires.remove(wire)
            wire.socket.close()


Group: TypeAlias = str


class World:
    """A scenario's names and members on a broker, for the first, second, … run."""

    def __init__(self, bootstrap_servers: str, scenario: str, time: int = 1) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = f"{scenario}." if time == 1 else f"{scenario}.{time}."
        self.peer = Peer(bootstrap_servers)
        self.pending: list[Pending] = []
        """Requests that wait for their answers."""
        self.group: Group = "group"
        """Short name of the group that the steps use."""
        self.counts_only = False
        """Whether outcomes show only the sizes of assignments: assignors order topics by their random ids."""
        self._members: dict[str, Member] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}
        self._ids: dict[str, str] = {}

    def hang_up(self) -> None:
        """Closes all connections and drops pending requests."""
        self.pending = []
        self.peer.close()
        for member in self._members.values():
            member.hang_up()

    def connect(self) -> None:
        """Connects to the broker after a restart, as soon as it serves groups."""
        self.peer = Peer(self.bootstrap_servers)
        self.peer.prepare()

    # -- members

    def member(self, name: str) -> Member:
        """Returns the member with that name."""
        return self._members.setdefault(name, Member(self, name))

    def learn_id(self, member: Member, member_id: str) -> None:
        """Records a member's new id."""
        member.member_id = member_id
        if member_id and member_id not in self._ids:
            earlier = sum(name.split("#")[0] == member.name for name in self._ids.values())
            self._ids[member_id] = f"{member.name}#{earlier + 1}" if earlier else member.name

    def id_of(self, text: str) -> str:
        """Returns a member id: of `none`, of `nobody`, or of a member; `A#2` is the second id of A."""
        if text in IDS:
            return IDS[text]
        for member_id, name in self._ids.items():
            if name == text:
                return member_id
        raise ScenarioError(f"{text} has no member id yet")

    def name_of(self, member_id: str) -> str:
        """Returns the member's name for an id; `B?` for an id that B does not know yet."""
        return self._ids.get(member_id) or UNTOLD.sub("?", self.short(member_id)) or "none"

    # -- names

    def long(self, name: str) -> str:
        """Returns the name on the broker of a topic or group."""
        return f"{self.prefix}{name}" if name not in ("", "none") else ""

    @property
    def group_id(self) -> str:
        """Returns the id of the group that the steps use."""
        return self.long(self.group)

    def short(self, text: str) -> str:
        """Replaces ids and long names in a text of the broker by the scenario's names."""
        for member_id in sorted(self._ids, key=len, reverse=True):
            text = text.replace(member_id, self._ids[member_id])
        for topic_id, name in self._topic_names.items():
            text = text.replace(base64.urlsafe_b64encode(topic_id).decode().rstrip("="), f"<id of {name}>")
        return text.replace(self.prefix, "")

    # -- topics

    def topic_id(self, name: str) -> bytes:
        """Returns the id of a topic of the scenario; for any other name an id that no topic has."""
        return self._topic_ids.get(name, name.encode().ljust(16, b"?")[:16])

    def topic_name(self, topic_id: bytes) -> str:
        """Returns the name of the topic with that id, also of a deleted topic."""
        return self._topic_names.get(topic_id, "<unknown>")

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic and waits until the clients and coordinators know it."""
        made = self.peer.create_topic(self.long(name), partitions)
        self._topic_ids[name] = made.topic_id
        self._topic_names[made.topic_id] = name if name not in self._topic_names.values() else f"new {name}"
        time.sleep(APPLIED_SECONDS)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic and waits until the clients and coordinators know them."""
        topic = CreatePartitionsTopic(name=self.long(name), count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
        response = self.peer.wire.call(CreatePartitionsResponse, 3, request)
        assert not response.results[0].error_code, response
        self.peer.until(lambda: self.partitions_of(name) == partitions)
        time.sleep(APPLIED_SECONDS)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and waits until the clients and coordinators know it."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=self.long(name))], timeout_ms=10_000)
        response = self.peer.wire.call(DeleteTopicsResponse, 6, request)
        assert not response.responses[0].error_code, response
        self.peer.until(lambda: self.partitions_of(name) == 0)
        time.sleep(APPLIED_SECONDS)

    def partitions_of(self, name: str) -> int:
        """Returns the number of partitions of a topic; 0 if the topic does not exist."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.long(name))], allow_auto_topic_creation=False)
        (topic,) = self.peer.wire.call(MetadataResponse, 12, request).topics
        return len(topic.partitions)

    def show(self, owned: Partitions) -> str:
        """Returns partitions as text, or only their number if the indexes depend on chance."""
        if not self.counts_only:
            return show_partitions(owned)
        count = sum(map(len, owned.values()))
        return f"{count} partition{'' if count == 1 else 's'}"

    def by_name(self, owned: Mapping[bytes, list[int]]) -> Partitions:
        """Replaces topic ids by topic names."""
        return {self.topic_name(topic_id): list(indexes) for topic_id, indexes in owned.items()}
