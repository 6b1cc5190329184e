"""Tests that a request is split into parts and their answers are merged into one answer."""

from __future__ import annotations

import pytest

from klamm.protocol.parts import merge, parts_of
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.offset_delete_response import OffsetDeleteResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

Wanted = dict[str, dict[str, list[int]]]


def request_for(wanted: Wanted) -> OffsetFetchRequest:
    """Returns a request for the partitions of each group and topic."""
    return OffsetFetchRequest(
        require_stable=True,
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name=name, partition_indexes=own) for name, own in topics.items()],
            )
            for group, topics in wanted.items()
        ],
    )


def answer_to(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Returns an answer with one entry for each requested partition."""
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def sizes(request: OffsetFetchRequest, count: int) -> list[int]:
    """Returns the number of partitions that each part asks for."""
    return [
        sum(len(topic.partition_indexes) for group in part.message.groups for topic in group.topics or ())
        for part in parts_of(request, count)
    ]


WANTED: list[Wanted] = [
    {"g": {"t": list(range(10))}},
    {"g": {"t": list(range(4)), "u": list(range(5))}, "h": {"t": list(range(3))}},
    {"g": {"t": [0]}, "h": {"t": [0]}, "i": {"t": [0, 1]}},
    {"g": {}, "h": {"t": []}, "i": {"t": [1]}},
    {},
]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("wanted", WANTED)
def test_answers_to_the_parts_make_the_answer_to_the_whole(wanted: Wanted, count: int) -> None:
    """The merged answers equal the answer to the whole request: the same order, each group and each topic once."""
    request = request_for(wanted)
    merged: OffsetFetchResponse | None = None
    for part in parts_of(request, count):
        assert part.message.require_stable
        assert part.size <= count
        answer = answer_to(part.message)
        if merged is None:
            merged = answer
        else:
            merge(merged, answer, part.continued)
    assert merged == answer_to(request_for(wanted))
    assert request == request_for(wanted)


def test_parts_are_full() -> None:
    """Every part except the last asks for the maximum number of partitions."""
    assert sizes(request_for({"g": {"t": list(range(10))}}), 4) == [4, 4, 2]
    assert sizes(request_for(WANTED[1]), 5) == [5, 5, 2]


def test_long_strings_count_more() -> None:
    """A long string counts more, because a name of 32 KB takes as long as many short ones, for example to hash."""
    names = ["n" * 32_000, "short", "short", "n" * 32_000]
    parts = [part.message.groups for part in parts_of(DescribeGroupsRequest(groups=list(names)), 50)]
    assert parts == [names[:1], names[1:]]


def test_message_without_arrays_is_one_part() -> None:
    """A message without arrays is one part, which is the message itself."""
    request = HeartbeatRequest(group_id="g")
    (part,) = parts_of(request, 1)
    assert part.message is request


def test_equal_elements_stay_as_many() -> None:
    """An element that is requested twice is answered twice, although the answers are equal. Merging joins only elements
    that were split."""
    request = DescribeGroupsRequest(groups=["g"] * 5)
    merged = DescribeGroupsResponse()
    for part in parts_of(request, 2):
        answer = DescribeGroupsResponse(groups=[DescribedGroup(group_id=name) for name in part.message.groups])
        merge(merged, answer, part.continued)
    assert [group.group_id for group in merged.groups] == ["g"] * 5


def test_error_of_a_part_is_one_of_the_whole() -> None:
    """The merged answer has the first error of the parts."""
    merged = OffsetDeleteResponse()
    for code in (0, 16, 14):
        merge(merged, OffsetDeleteResponse(error_code=code), 0)
    assert merged.error_code == 16


def test_halves_that_were_answered_unlike_stay_apart() -> None:
    """A group whose second half was refused is in the merged answer twice, because the error codes differ."""
    merged = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")])
    merge(merged, OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=16)]), 1)
    assert [group.error_code for group in merged.groups] == [0, 16]
