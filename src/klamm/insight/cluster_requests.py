"""Requests of administration that librdkafka does not have, sent with klamm's own client to any Kafka cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from klamm.client.errors import AuthenticationFailed, ConnectionFailed, UnsupportedByBroker
from klamm.client.operations import Ask, Steps
from klamm.errors import KlammError
from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError, NotOffered
from klamm.insight.group.group_snapshot import raw_cluster
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message, UnsupportedField
from klamm.protocol.types import BrokerId

__all__ = ["ClusterRequests", "code_name"]

M = TypeVar("M", bound=Message)


def code_name(code: int) -> str:
    """Returns Kafka's name of an error code; the number as text if it has none here."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class ClusterRequests:
    """Connections to the brokers of one cluster: `with ClusterRequests(access) as requests: …`. Not thread-safe."""

    def __init__(self, access: ClusterAccess, *, patience_s: float = TIMEOUT_S) -> None:
        """Learns the addresses of the brokers. A request may take `patience_s`.

        Raises ClusterError if no broker answers, NotOffered if klamm's client does not support the security properties.
        """
        access.admin_client()  # librdkafka gives up early if no broker can be reached
        cluster = raw_cluster(access, patience_s)
        if cluster is None:
            raise NotOffered(
                "this command does not support the security properties: it needs SSL or SASL with PLAIN "
                "or SCRAM, and certificates as PEM"
            )
        self._access = access
        self._cluster = cluster
        try:
            cluster.refresh([])
        except AuthenticationFailed as error:
            raise NotOffered(str(error)) from None  # librdkafka may succeed: it has connected with other mechanisms
        except KlammError as error:
            raise access.unreachable(str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._cluster.close()

    def brokers(self) -> Sequence[BrokerId]:
        """Returns the brokers that the cluster named last."""
        return self._cluster.brokers()

    def refresh(self) -> None:
        """Learns the brokers again. Raises ClusterError."""
        try:
            self._cluster.refresh([])
        except KlammError as error:
            raise self._access.unreachable(str(error)) from None

    def ask(self, request: Message, answer: type[M]) -> M:
        """Returns the answer of any broker. Brokers forward to the controller what only the controller does.

        A request whose connection breaks is sent once more, to another broker if possible. Raises ClusterError, and
        NotOffered if the broker is too old.
        """
        try:
            for last in (False, True):
                (reply,) = self._run([(None, request)], answer)
                if isinstance(reply, answer):
                    return reply
                if not last:
                    self.refresh()
        except (UnsupportedByBroker, UnsupportedField) as error:
            raise NotOffered(str(error)) from None
        except AuthenticationFailed as error:
            raise ClusterError(str(error)) from None
        raise self._access.unreachable(str(reply))

    def ask_each(self, questions: Mapping[BrokerId, Message], answer: type[M]) -> dict[BrokerId, M]:
        """Returns the answers by broker, without those of brokers that can't be reached or don't know the request."""
        answers = {}
        known: Collection[BrokerId] = self.brokers()
        for broker, request in questions.items():
            if broker in known:
                # One by one: a version that one broker doesn't know must not hide the answers of the others.
                try:
                    (reply,) = self._run([(broker, request)], answer)
                except KlammError:
                    continue
                if isinstance(reply, answer):
                    answers[broker] = reply
        return answers

    def _run(self, questions: Sequence[tuple[BrokerId | None, Message]], answer: type[M]) -> list[M | ConnectionFailed]:
        return self._cluster.run(_asking(Ask(questions, answer)))


def _asking(ask: Ask) -> Steps[list[Any]]:
    replies: list[Any] = yield ask
    return replies
