"""One scenario on one broker: its topics and groups under names of its own, its members, and whose id is whose.

Names in a scenario are short; on the broker they have the scenario's name in front, so that many scenarios share a
broker. What the broker answers is told in the scenario's names again.
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
"""Who is in no group."""
UNTOLD: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
IDS: Final = {"none": "", "nobody": "nobody"}
"""Member ids that belong to none."""
APPLIED_SECONDS: Final = 0.2
"""What a broker needs at most to tell its coordinators of topics that it tells clients of."""


def _nothing(response: Message) -> None:
    """Most answers say nothing that a member has to remember."""


class Ask(NamedTuple):
    """A request, how its answer is told, and what the member learns from it."""

    request: Message
    version: int
    tell: Callable[[Message], str]
    learn: Callable[[Message], None] = _nothing


class Pending(NamedTuple):
    """A request under way."""

    member: Member
    verb: str
    wire: Wire
    ask: Ask

    @property
    def api_key(self) -> ApiKey:
        """Its API."""
        assert self.ask.request.API_KEY is not None
        return ApiKey(self.ask.request.API_KEY)

    def receive(self) -> Answer:
        """The answer, from which the member has learnt."""
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
    """What the broker answered to a request; None when it closed the connection."""

    pending: Pending
    response: Message | None

    @property
    def text(self) -> str:
        """The answer, told. Ids that the scenario has come to know meanwhile have their names in it."""
        return "the connection was closed" if self.response is None else self.pending.ask.tell(self.response)


class Member:
    """A client, with what it remembers of the answers it got."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.defaults: dict[str, str] = {}
        """What its requests say where a step doesn't."""
        self.member_id = ""
        self.generation = -1
        """Or its epoch, in the consumer protocol."""
        self.protocol = "range"
        """What its classic group voted for."""
        self.assigned: Partitions = {}
        """What the coordinator has it own."""
        self._wires: list[Wire] = []

    def send(self, verb: str, ask: Ask) -> Pending:
        """Sends a request on a connection that waits for no answer."""
        busy = [pending.wire for pending in self.world.pending if pending.member is self]
        wire = next((wire for wire in self._wires if wire not in busy), None)
        if wire is None:
            wire = Wire(self.world.bootstrap_servers, self.name)
            self._wires.append(wire)
        pending = Pending(self, verb, wire, ask)
        wire.send(pending.api_key, ask.version, encode(ask.request, ask.version))
        return pending

    def hang_up(self, *wires: Wire) -> None:
        """Closes connections of its own, by default all."""
        for wire in wires or tuple(self._wires):
            self._wires.remove(wire)
            wire.socket.close()


Group: TypeAlias = str


class World:
    """A scenario's names and members on a broker, where it is played for the first, second, ... time."""

    def __init__(self, bootstrap_servers: str, scenario: str, time: int = 1) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = f"{scenario}." if time == 1 else f"{scenario}.{time}."
        self.peer = Peer(bootstrap_servers)
        self.pending: list[Pending] = []
        """Requests that wait for their answers."""
        self.group: Group = "group"
        """The group that steps are about, by its short name."""
        self.counts_only = False
        """Whether assignments are told by their sizes alone: assignors see topics in the order of their random ids."""
        self._members: dict[str, Member] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}
        self._ids: dict[str, str] = {}

    def hang_up(self) -> None:
        """Ends all connections; who waited for an answer waits no more."""
        self.pending = []
        self.peer.close()
        for member in self._members.values():
            member.hang_up()

    def connect(self) -> None:
        """Goes on with the broker, once it serves groups again."""
        self.peer = Peer(self.bootstrap_servers)
        self.peer.prepare()

    # -- members

    def member(self, name: str) -> Member:
        """The member of that name."""
        return self._members.setdefault(name, Member(self, name))

    def learn_id(self, member: Member, member_id: str) -> None:
        """A member has got this id, or chosen it."""
        member.member_id = member_id
        if member_id and member_id not in self._ids:
            earlier = sum(name.split("#")[0] == member.name for name in self._ids.values())
            self._ids[member_id] = f"{member.name}#{earlier + 1}" if earlier else member.name

    def id_of(self, text: str) -> str:
        """A member id: `none`, `nobody`, or that of the member of this name, `A#2` being the second one that A had."""
        if text in IDS:
            return IDS[text]
        for member_id, name in self._ids.items():
            if name == text:
                return member_id
        raise ScenarioError(f"{text} has no member id yet")

    def name_of(self, member_id: str) -> str:
        """Whose id that is; `B?` for one that B was not told yet."""
        return self._ids.get(member_id) or UNTOLD.sub("?", self.short(member_id)) or "none"

    # -- names

    def long(self, name: str) -> str:
        """The name on the broker of a topic or group."""
        return f"{self.prefix}{name}" if name not in ("", "none") else ""

    @property
    def group_id(self) -> str:
        """The id of the group that steps are about."""
        return self.long(self.group)

    def short(self, text: str) -> str:
        """A text of the broker in the scenario's names."""
        for member_id in sorted(self._ids, key=len, reverse=True):
            text = text.replace(member_id, self._ids[member_id])
        for topic_id, name in self._topic_names.items():
            text = text.replace(base64.urlsafe_b64encode(topic_id).decode().rstrip("="), f"<id of {name}>")
        return text.replace(self.prefix, "")

    # -- topics

    def topic_id(self, name: str) -> bytes:
        """The id of a topic of the scenario; for any other name one that no topic has."""
        return self._topic_ids.get(name, name.encode().ljust(16, b"?")[:16])

    def topic_name(self, topic_id: bytes) -> str:
        """The topic of that id; one that was deleted keeps its name."""
        return self._topic_names.get(topic_id, "<unknown>")

    def create_topic(self, name: str, partitions: int) -> None:
        """Makes a topic and waits until all know of it."""
        made = self.peer.create_topic(self.long(name), partitions)
        self._topic_ids[name] = made.topic_id
        self._topic_names[made.topic_id] = name if name not in self._topic_names.values() else f"new {name}"
        time.sleep(APPLIED_SECONDS)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions and waits until all know of them."""
        topic = CreatePartitionsTopic(name=self.long(name), count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
        response = self.peer.wire.call(CreatePartitionsResponse, 3, request)
        assert not response.results[0].error_code, response
        self.peer.until(lambda: self.partitions_of(name) == partitions)
        time.sleep(APPLIED_SECONDS)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and waits until all know."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=self.long(name))], timeout_ms=10_000)
        response = self.peer.wire.call(DeleteTopicsResponse, 6, request)
        assert not response.responses[0].error_code, response
        self.peer.until(lambda: self.partitions_of(name) == 0)
        time.sleep(APPLIED_SECONDS)

    def partitions_of(self, name: str) -> int:
        """How many partitions a topic has; 0 where there is none."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.long(name))], allow_auto_topic_creation=False)
        (topic,) = self.peer.wire.call(MetadataResponse, 12, request).topics
        return len(topic.partitions)

    def show(self, owned: Partitions) -> str:
        """Partitions, or how many where it is by chance which."""
        if not self.counts_only:
            return show_partitions(owned)
        count = sum(map(len, owned.values()))
        return f"{count} partition{'' if count == 1 else 's'}"

    def by_name(self, owned: Mapping[bytes, list[int]]) -> Partitions:
        """Partitions by topic id, by name."""
        return {self.topic_name(topic_id): list(indexes) for topic_id, indexes in owned.items()}
