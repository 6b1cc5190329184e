"""The parts of a Fetch response other than records: the session id, changed partitions, and the leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.fetch_sessions import FetchSession
from klamm.broker.partitions.read_result import PartitionAnswer, size_of

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.protocol.fetch_messages import FetchRequest

__all__ = [
    "FINAL_SESSION_EPOCH",
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "INITIAL_SESSION_EPOCH",
    "INVALID_SESSION_ID",
    "begin_session",
    "leaders_of",
    "news_of",
]

FINAL_SESSION_EPOCH: Final = -1
INITIAL_SESSION_EPOCH: Final = 0
INVALID_SESSION_ID: Final = 0
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


def begin_session(context: RequestContext, request: FetchRequest, answers: Sequence[PartitionAnswer]) -> int:
    """Creates a session for a full request and returns its id; 0 if the request wants none or the cache is full."""
    if request.session_epoch != INITIAL_SESSION_EPOCH:
        return INVALID_SESSION_ID
    for cached, response in answers:
        cached.high_watermark = response.high_watermark
        cached.log_start_offset = response.log_start_offset
    broker = context.broker
    session = broker.fetch_sessions.create(
        [cached for cached, _ in answers],
        context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS,
        broker.clock(),
        context.connection,
        # A client may send any replica id, and has not shown to be that broker.
        is_privileged=request.replica_id >= 0 and request.replica_id == context.connection.broker_id,
    )
    return INVALID_SESSION_ID if session is None else session.session_id


def leaders_of(request: FetchRequest, answers: Sequence[PartitionAnswer]) -> set[int]:
    """Returns the ids of the leaders that the answers to a consumer name (KIP-951)."""
    if request.replica_id >= 0:
        return set()
    return {response.current_leader[0] for _, response in answers if response.current_leader is not None}


def news_of(session: FetchSession, answers: Sequence[PartitionAnswer]) -> list[PartitionAnswer]:
    """Returns the answers that contain news for the client. Partitions with records go to the end of the queue."""
    news = []
    for cached, response in answers:
        if cached.key not in session.partitions:
            continue
        has_records = size_of(response) > 0
        if cached.must_respond(response, has_records):
            news.append((cached, response))
            if has_records:
                session.partitions.move_to_end(cached.key)
    return news
