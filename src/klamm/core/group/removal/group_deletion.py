"""DeleteGroups, in steps if the groups have very many offsets.

Offsets go first and the group last, so that an interrupted deletion can be requested again. Meanwhile no request may
use the group: it is refused as if the group were being loaded, so that clients retry. Apache Kafka writes one batch of
any size, and refuses the request if the batch is too large.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Set
from functools import partial
from itertools import islice

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.incremental_work import IncrementalWork
from klamm.core.group.removal.removal_rules import delete_group, delete_groups, offset_tombstones, why_not_deletable
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from klamm.protocol.types import Millis

__all__ = ["Deletions"]

_Codes = dict[str, ErrorCode]


class Deletions:
    """The DeleteGroups requests of one shard; `limit` is the number of records in one step."""

    __slots__ = ("_group_ids", "_groups", "_incremental_work", "_limit", "_requests")

    def __init__(self, groups: GroupRegistry, incremental_work: IncrementalWork, limit: int) -> None:
        self._groups = groups
        self._incremental_work = incremental_work
        self._limit = limit
        self._group_ids: set[str] = set()
        self._requests: dict[Ticket, DeleteGroupsRequest] = {}

    def check(self, group_id: str) -> None:
        """Raises COORDINATOR_LOAD_IN_PROGRESS if the group is being deleted."""
        if group_id in self._group_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Group {group_id} is being deleted.")

    def delete_groups(self, request: DeleteGroupsRequest, ticket: Ticket, now: Millis) -> Result:
        """Deletes groups with all their offsets, at once and in one batch if that is few records, else in steps.

        A group that cannot be deleted gets the code of `why_not_deletable`, or COORDINATOR_LOAD_IN_PROGRESS if another
        request is deleting it.
        """
        store, group_ids = self._groups.store, request.groups_names
        records = sum(1 + store.offset_count(group_id) for group_id in group_ids)
        if records <= self._limit and self._group_ids.isdisjoint(group_ids):
            return delete_groups(self._groups, request, ticket, now)
        own = {group_id for group_id in group_ids if self._why_not(group_id) is ErrorCode.NONE}
        self._group_ids |= own
        self._requests[ticket] = request
        result = Result()
        self._incremental_work.add(self._delete(request, ticket, own), result)
        return result

    def on_unloaded(self, result: Result) -> None:
        """Answers all waiting requests with NOT_COORDINATOR: no more steps will follow."""
        for ticket, request in self._requests.items():
            codes = dict.fromkeys(request.groups_names, ErrorCode.NOT_COORDINATOR)
            result.reply(ticket, _response(request, codes))

    def _why_not(self, group_id: str) -> ErrorCode:
        if group_id in self._group_ids:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return why_not_deletable(self._groups, group_id)

    def _delete(self, request: DeleteGroupsRequest, ticket: Ticket, own: Set[str]) -> Iterator[Result]:
        codes: _Codes = {group_id: self._why_not(group_id) for group_id in request.groups_names}
        codes.update(dict.fromkeys(own, ErrorCode.NONE))
        try:
            last = yield from self._steps(own, codes)
        except BaseException:
            self._end(ticket, own)
            raise
        earlier = last.on_failure

        def answer(_now: Millis) -> Result:
            self._end(ticket, own)
            result = Result()
            result.reply(ticket, _response(request, codes))
            return result

        def give_up(code: ErrorCode, now: Millis) -> Result:
            if earlier is not None:
                earlier(code, now)
            return answer(now)

        # The answer waits until the last step is committed or has failed.
        last.on_commit, last.on_failure = answer, give_up
        yield last

    def _steps(self, own: Set[str], codes: _Codes) -> Generator[Result, None, Result]:
        """Yields all steps but the last, which it returns. A group whose records are refused gets the error."""
        store = self._groups.store
        step = _Step(codes)
        for group_id in [group_id for group_id in codes if group_id in own]:
            if step.records and len(step.records) + store.offset_count(group_id) >= self._limit:
                yield step.result
                step = _Step(codes)
            while store.offset_count(group_id) >= self._limit and codes[group_id] is ErrorCode.NONE:
                step.group_ids.append(group_id)
                step.records += islice(offset_tombstones(store, group_id), self._limit)
                yield step.result
                step = _Step(codes)
            # The group may have expired meanwhile.
            if codes[group_id] is ErrorCode.NONE and self._groups.is_known(group_id):
                step.group_ids.append(group_id)
                delete_group(self._groups, group_id, step.result, self._incremental_work.now)
        return step.result

    def _end(self, ticket: Ticket, own: Set[str]) -> None:
        self._group_ids -= own
        self._requests.pop(ticket, None)


class _Step:
    """The records of one step, and the groups that they belong to."""

    def __init__(self, codes: _Codes) -> None:
        self.result = Result(atomic=False)
        self.records = self.result.records
        self.group_ids: list[str] = []
        self.result.on_failure = partial(_note_failure, codes, self.group_ids)


def _note_failure(codes: _Codes, group_ids: Iterable[str], code: ErrorCode, now: Millis) -> Result:
    for group_id in group_ids:
        codes[group_id] = coordinator_error(code)
    return Result()


def _response(request: DeleteGroupsRequest, codes: _Codes) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=codes[group_id]) for group_id in request.groups_names
        ]
    )
