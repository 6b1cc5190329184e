"""Tests requests in the codec: a large request is answered in steps, with the same result as in one step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.handlers.group_broker import GroupBroker, topic

from klamm.broker import time_slices
from klamm.broker.handler_context import ConnectionInfo, RequestContext
from klamm.broker.handlers import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from klamm.broker.network import codec_route
from klamm.broker.network.codec_route import CodecRoute
from klamm.broker.time_slices import InSteps, Work
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.types import TopicId

GROUPS = [f"group-{number}" for number in range(7)]
WIDE_ID = TopicId(b"w" * 16)


@pytest.fixture
def in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every frame count as large, and every yield end a step."""
    monkeypatch.setattr(codec_route, "SMALL_FRAME_BYTES", 0)
    monkeypatch.setattr(time_slices, "STEP_S", -1.0)


async def ask(broker: GroupBroker, module: Any, request: Message, version: int) -> tuple[Message, int]:
    """Returns the decoded answer and the number of loop iterations that it took."""
    key = ApiKey(cast(int, request.API_KEY))
    frame = memoryview(encode(request, version))
    pending = CodecRoute(key, module).handle_frame(broker.request(key, version), frame, 0)
    iterations = 0
    while isinstance(pending, asyncio.Future) and not pending.done():
        await asyncio.sleep(0)
        broker.world.timers.advance(1)
        iterations += 1
    body = pending.result() if isinstance(pending, asyncio.Future) else pending
    assert body is not None
    return decode(API_SPECS[key].response_class(), version, b"".join(body))[0], iterations


def told(answer: Any) -> list[str]:
    """Returns all entries of an answer in a fixed order."""
    return sorted(map(repr, answer.groups if hasattr(answer, "groups") else answer.results))


@pytest.mark.parametrize(
    ("module", "request_", "version", "constant"),
    [
        (list_groups, ListGroupsRequest(), 5, "_IDS_AT_ONCE"),
        (list_groups, ListGroupsRequest(states_filter=["Empty", "x"], types_filter=["Classic"]), 5, "_IDS_AT_ONCE"),
        (list_groups, ListGroupsRequest(states_filter=["Nothing", "like", "it"]), 5, "_IDS_AT_ONCE"),
        (describe_groups, DescribeGroupsRequest(groups=[*GROUPS, "nobody"]), 6, "PART_ELEMENTS"),
        (describe_groups, DescribeGroupsRequest(groups=["nobody"] * 9), 6, "PART_ELEMENTS"),
        (consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=[*GROUPS, ""]), 1, "PART_ELEMENTS"),
        (delete_groups, DeleteGroupsRequest(groups_names=["nobody", "you", "nobody"]), 2, "_GROUPS_AT_ONCE"),
    ],
)
def test_answer_made_in_steps_says_what_it_would_say_at_once(
    monkeypatch: pytest.MonkeyPatch, module: Any, request_: Message, version: int, constant: str
) -> None:
    """An answer in steps has the same entry for each requested group, as often as requested, as an answer in one
    step."""

    async def scenario() -> None:
        broker = GroupBroker()
        for group_id in GROUPS:
            broker.world.commit(1, group_id=group_id)
        monkeypatch.setattr(time_slices, "STEP_S", 3600.0)
        at_once, iterations = await ask(broker, module, request_, version)
        assert iterations <= 1
        monkeypatch.setattr(module, constant, 2)
        monkeypatch.setattr(codec_route, "SMALL_FRAME_BYTES", 0)
        monkeypatch.setattr(time_slices, "STEP_S", -1.0)
        in_steps, iterations = await ask(broker, module, request_, version)
        assert told(in_steps) == told(at_once)
        assert iterations > 3

    asyncio.run(scenario())


def offsets(wishes: dict[str, list[int]]) -> OffsetCommitRequest:
    """Returns a commit for the given partitions."""
    return OffsetCommitRequest(
        group_id="orders",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=100 + index)
                    for index in indexes
                ],
            )
            for name, indexes in wishes.items()
        ],
    )


@in_loop
async def test_many_offsets_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch, in_short_steps: None) -> None:
    """Many offsets are committed, fetched and deleted in parts. The answer has each topic and partition once, and an
    unknown partition is refused."""
    broker = GroupBroker()
    broker.show(topic("wide", WIDE_ID, 9))
    wishes = {"events": [0, 1], "wide": [*range(9), 12], "audit": [0]}
    for module in (offset_commit, offset_fetch, offset_delete):
        monkeypatch.setattr(module, "PART_ELEMENTS", 5)
    answer, iterations = await ask(broker, offset_commit, offsets(wishes), 9)
    assert iterations > 3
    response = cast(OffsetCommitResponse, answer)
    assert sorted(topic.name for topic in response.topics) == sorted(wishes)
    codes = {
        (name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if index == 12 else ErrorCode.NONE
        for name, indexes in wishes.items()
        for index in indexes
    }
    assert {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    } == codes
    fetched: Any
    fetch = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="orders",
                topics=[OffsetFetchRequestTopics(name=name, partition_indexes=own) for name, own in wishes.items()],
            )
        ]
    )
    fetched, _ = await ask(broker, offset_fetch, fetch, 8)
    ((group,),) = (fetched.groups,)
    assert {
        (topic.name, each.partition_index): each.committed_offset for topic in group.topics for each in topic.partitions
    } == {(name, index): -1 if index == 12 else 100 + index for name, index in codes}
    delete = OffsetDeleteRequest(
        group_id="orders",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in own]
            )
            for name, own in wishes.items()
        ],
    )
    deleted: Any
    deleted, _ = await ask(broker, offset_delete, delete, 0)
    assert {
        (topic.name, each.partition_index): each.error_code for topic in deleted.topics for each in topic.partitions
    } == codes


class Handler:
    """A handler module of the test, for OffsetCommit."""

    def __init__(self, handle: Any, part_elements: int | None = None) -> None:
        self.module = SimpleNamespace(handle=handle, error_response=offset_commit.error_response)
        if part_elements is not None:
            self.module.PART_ELEMENTS = part_elements

    def begin(self, request: Message, api: ApiKey = ApiKey.OFFSET_COMMIT) -> Any:
        """Returns the connection's result for a request of version 9."""
        connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
        context = RequestContext(cast(Any, None), connection, api, 9, "app")
        return CodecRoute(api, cast(Any, self.module)).handle_frame(context, memoryview(encode(request, 9)), 0)

    async def answer(self, request: Message) -> OffsetCommitResponse:
        """Returns the decoded answer."""
        body = self.begin(request)
        body = await body if isinstance(body, asyncio.Future) else body
        return decode(OffsetCommitResponse, 9, b"".join(body))[0]


def refuse(context: RequestContext, request: Message) -> Message:
    """Refuses every request."""
    raise KafkaError(ErrorCode.POLICY_VIOLATION)


def break_down(context: RequestContext, request: Message) -> Work[Message]:
    """Fails with an unexpected error after the first step."""
    yield None
    raise ValueError("a mistake of ours")


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (Handler(refuse), ErrorCode.POLICY_VIOLATION),
        (Handler(refuse, 10), ErrorCode.POLICY_VIOLATION),
        (Handler(break_down), ErrorCode.UNKNOWN_SERVER_ERROR),
        (Handler(break_down, 10), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("is_large", [False, True])
@in_loop
async def test_refusal_is_made_in_steps(
    monkeypatch: pytest.MonkeyPatch, handler: Handler, code: ErrorCode, is_large: bool
) -> None:
    """The error response names every partition with its error and each topic once, also for many partitions."""
    monkeypatch.setattr(codec_route, "SMALL_FRAME_BYTES", 0 if is_large else 1_000_000)
    wishes = {"a": list(range(700)), "b": [1]}
    response = await handler.answer(offsets(wishes))
    assert {topic.name: [each.partition_index for each in topic.partitions] for topic in response.topics} == wishes
    assert {each.error_code for topic in response.topics for each in topic.partitions} == {code}


@in_loop
async def test_malformed_request_costs_the_connection(in_short_steps: None) -> None:
    """A malformed request raises an error for its connection, even if it is detected only after some steps."""

    def refuse_bytes(context: RequestContext, request: Message) -> Work[Message]:
        yield None
        raise MalformedMessage("a field that can't be")

    task = Handler(refuse_bytes).begin(offsets({"a": [1]}))
    with pytest.raises(MalformedMessage):
        await task


@in_loop
async def test_what_reads_stops_when_its_client_goes_and_what_changes_something_does_not(in_short_steps: None) -> None:
    """A read request stops when its client disconnects, but a commit or an election is carried out, as in Kafka."""

    def forever(context: RequestContext, request: Message) -> Work[Message]:
        while True:
            yield None

    for api, may_stop in (
        (ApiKey.OFFSET_COMMIT, False),
        (ApiKey.ELECT_LEADERS, False),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, False),
        (ApiKey.UPDATE_FEATURES, False),
        (ApiKey.UNREGISTER_BROKER, False),
        (ApiKey.FIND_COORDINATOR, True),
    ):
        request = offsets({"a": [1]}) if api is ApiKey.OFFSET_COMMIT else API_SPECS[api].request_class()()
        connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
        version = API_SPECS[api].max_version
        context = RequestContext(cast(Any, None), connection, api, version, "app")
        route = CodecRoute(api, cast(Any, SimpleNamespace(handle=forever, error_response=None)))
        task = route.handle_frame(context, memoryview(encode(request, version)), 0)
        assert isinstance(task, InSteps)
        assert task.progress.may_stop, "nothing is decided before it is read"
        for _ in range(20):
            await asyncio.sleep(0)
        assert task.progress.may_stop is may_stop
        task.cancel()


@in_loop
async def test_buffer_may_be_used_again_while_a_request_is_decoded(in_short_steps: None) -> None:
    """A request in the loop's scratch buffer is copied first, so that the buffer can be reused during decoding."""
    seen: list[list[str]] = []

    def handle(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
        seen.append([topic.name for topic in request.topics])
        return OffsetCommitResponse()

    wishes: dict[str, list[int]] = {f"topic-{number}": [] for number in range(1000)}
    scratch = bytearray(encode(offsets(wishes), 9))
    connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
    context = RequestContext(cast(Any, None), connection, ApiKey.OFFSET_COMMIT, 9, "app")
    task = CodecRoute(ApiKey.OFFSET_COMMIT, cast(Any, Handler(handle).module)).handle_frame(
        context, memoryview(scratch), 0
    )
    assert isinstance(task, InSteps)
    scratch[:] = bytes(len(scratch))
    await task
    assert seen == [list(wishes)]


def test_group_that_goes_between_two_steps_is_left_out() -> None:
    """A group that is deleted between two steps is left out of the list."""
    broker = GroupBroker()
    for group_id in GROUPS:
        broker.world.commit(1, group_id=group_id)
    coordinator = broker.world.coordinator
    slices = coordinator.group_ids(3)
    assert sorted(group_id for _, group_ids in slices for group_id in group_ids) == GROUPS
    assert max(len(group_ids) for _, group_ids in slices) <= 3
    broker.world.shard(coordinator.partition_for(GROUPS[0])).classic_groups.store.groups.pop(GROUPS[0])
    client: ClientContext = broker.world.client(5)
    answers = [broker.world.now(coordinator.list_groups(ListGroupsRequest(), client, each)) for each in slices]
    assert sorted(group.group_id for answer in answers for group in answer.groups) == GROUPS[1:]
