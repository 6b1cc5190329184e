"""A streaming query's use of its group, from its start to its end, in its planning process."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Final

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.client.config import ClientConfig
from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.application import application_id
from klamm.spark.query_checkpoints import ask_driver
from klamm.spark.source.checkpoint.checkpoint_log import is_last_finished
from klamm.spark.source.group.commit_patience import FULL_PATIENCE_S
from klamm.spark.source.group.exclusive_assignor import MemberData
from klamm.spark.source.group.group_commits import GroupCommits, GroupPolicy
from klamm.spark.source.group.group_member import QueryMember
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning_process import Caller, end_in_order

__all__ = ["QueryGroup", "commits_of", "named_client"]

_logger = logging.getLogger(__name__)

_UNNAMED: Final = next(field.default for field in dataclasses.fields(ClientConfig) if field.name == "client_id")
# The interval at which a standby query checks whether it was stopped.
_LOOK_AROUND_S: Final = 0.5
# A process that ends must not wait for long.
_STOP_PATIENCE_S: Final = 5.0


class QueryGroup:
    """The group of one query; does nothing without `kafka.group.id`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._caller = Caller() if options.klamm.group_mode == "member" else None
        self._client = named_client(options.client)
        self._member: QueryMember | None = None
        self._offsets: GroupOffsets | None = None
        self._checkpoints: set[str] = set()
        self.commits = GroupCommits(None)

    def enter(self, partitions: Collection[TopicPartition]) -> None:
        """Connects to the group; a member waits here until it owns the group. `partitions` are those that the query
        reads.

        Raises `RequestRefused` if the group does not accept the member.
        """
        options = self._options
        if options.group_id is None:
            return
        end_in_order()
        told = options.klamm.group_checkpoint
        # Fetched now: when the query is stopped, its driver may be ending as well. Queries with the same options have
        # the same group, so it does not matter which of them has finished the micro-batch.
        self._checkpoints = (
            {told} if told is not None else {found.location for found in ask_driver(options.fingerprint)}
        )
        if options.klamm.group_mode == "member":
            self._member = QueryMember(
                self._client,
                options.group_id,
                MemberData(application_id(), frozenset(partitions)),
                session_timeout_ms=options.client.session_timeout_ms,
                heartbeat_interval_ms=options.client.heartbeat_interval_ms,
            )
            self._member.start()
            self._await_ownership(self._member)
        self._offsets = self._connect(FULL_PATIENCE_S)
        self.commits = GroupCommits(
            self._offsets,
            _policy(options),
            self._member,
            briefly=lambda patience_s: closing(self._connect(patience_s)),
        )

    def _await_ownership(self, member: QueryMember) -> None:
        assert self._caller is not None
        try:
            while not member.await_ownership(_LOOK_AROUND_S):
                if self._caller.has_hung_up():
                    # The reader's `stop` follows, and leaves the group.
                    sys.exit("the query was stopped while it stood by")
        finally:
            self._caller.close()

    def stop(self) -> None:
        """Commits the last micro-batch if it is known to be finished, and leaves the group. Never raises."""
        try:
            self._commit_the_last()
        except Exception as error:
            _logger.warning("the group was not told of the last micro-batch, the next run will tell it: %s", error)
        if self._member is not None:
            self._member.leave("the query was stopped")
        if self._offsets is not None:
            self._offsets.close()

    def _commit_the_last(self) -> None:
        if self._offsets is None:
            return

        def is_finished(end: Mapping[TopicPartition, Offset]) -> bool:
            return any(is_last_finished(location, end) for location in self._checkpoints)

        # A new connection, since the other may have been interrupted during a request.
        with closing(self._connect(_STOP_PATIENCE_S)) as group:
            self.commits.stopped(group, is_finished)

    def _connect(self, patience_s: float) -> GroupOffsets:
        """Returns a client of the group with all timeouts limited to `patience_s`."""
        assert self._options.group_id is not None
        client, patience_ms = self._client, int(patience_s * 1000)
        brief = dataclasses.replace(
            client,
            default_api_timeout_ms=min(client.default_api_timeout_ms, patience_ms),
            request_timeout_ms=min(client.request_timeout_ms, patience_ms),
            socket_connection_setup_timeout_ms=min(client.socket_connection_setup_timeout_ms, patience_ms),
        )
        cluster = Cluster(brief)
        return GroupOffsets(cluster, self._options.group_id, self._member)


def commits_of(options: SourceOptions, cluster: Cluster) -> GroupCommits:
    """Returns the commits of the group for a batch read, which only reads them."""
    if options.group_id is None:
        return GroupCommits(None)
    return GroupCommits(GroupOffsets(cluster, options.group_id), _policy(options))


def named_client(client: ClientConfig) -> ClientConfig:
    """Returns the settings with the application as client id, unless the options set one: tools show members by client
    id."""
    if client.client_id != _UNNAMED:
        return client
    return dataclasses.replace(client, client_id=f"spark-{application_id()}")


def _policy(options: SourceOptions) -> GroupPolicy:
    assert options.group_id is not None
    return GroupPolicy(
        options.group_id,
        application_id(),
        reset=options.klamm.group_reset,
        fail_on_conflict=options.klamm.group_conflict == "fail",
    )
