"""Access to a cluster through confluent-kafka, which works with any Kafka cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from klamm.errors import KlammError
from klamm.insight.errors import ClusterError, InvalidProperty
from klamm.protocol.errors import ErrorCode

__all__ = ["TIMEOUT_S", "ClusterAccess"]

T = TypeVar("T")
C = TypeVar("C", AdminClient, Consumer, Producer)

TIMEOUT_S: Final = 10.0
# How long each attempt waits before the collected errors are checked. The sum is TIMEOUT_S.
_WAITS_S: Final = (0.5, 0.5, 1.0, 2.0, 6.0)
# All brokers can seem down for a moment: librdkafka tries the addresses of one host name one after the other.
_PATIENCE_WITH_DEAD_BROKERS_S: Final = 2.0

_UNREACHABLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
# The texts of these errors name a cause: a refused connection, an unknown host name, a handshake that failed.
_FAILED_CONNECTIONS: Final = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE})
_DURATION: Final = re.compile(r" \(after \d+ms in state [^)]*\)$")
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
_NOT_UNDERSTOOD: Final = frozenset({KafkaError._INVALID_ARG, KafkaError._NOT_IMPLEMENTED})


class ClusterAccess:
    """The addresses of a cluster and librdkafka's properties for it. Creates clients and translates their errors.

    A user interface may override `unreachable` and `invalid_property` to tell its user what to do.
    """

    def __init__(self, bootstrap_servers: str, properties: Iterable[tuple[str, str]] = ()) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.properties = dict(properties)

    def unreachable(self, reason: str) -> ClusterError:
        """Returns the error for a cluster that does not answer."""
        return ClusterError(f"no answer from {self.bootstrap_servers}: {reason}")

    def invalid_property(self, reason: str) -> KlammError:
        """Returns the error for a property that librdkafka does not accept."""
        return InvalidProperty(reason)

    def connect(self, new_client: Callable[[dict[str, Any]], C], **settings: Any) -> C:
        """Returns a librdkafka client after the cluster has answered it. The properties override `settings`.

        Raises ClusterError if no broker answers, and `invalid_property` for properties that librdkafka refuses.
        """
        errors: list[KafkaError] = []
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": "klamm",
            "log_level": 2,  # no log output: the raised error reports the failure
            "socket.timeout.ms": int(TIMEOUT_S * 1000),
            "error_cb": errors.append,
            **settings,
            **self.properties,
        }
        try:
            client = new_client(config)
        except KafkaException as error:
            if error.args[0].code() in _NOT_UNDERSTOOD:
                raise self.invalid_property(error.args[0].str()) from None
            raise self.cluster_error(error.args[0]) from None
        self._wait_for_an_answer(client, errors)
        return client

    def admin_client(self) -> AdminClient:
        """Returns a client for the cluster's administration. Raises as `connect` does."""
        return self.connect(AdminClient)

    def translate(self, call: Callable[[], T]) -> T:
        """Returns the result of `call`. Raises librdkafka's exception as a ClusterError."""
        try:
            return call()
        except KafkaException as error:
            raise self.cluster_error(error.args[0]) from None

    def result_of(self, future: Future[T]) -> T:
        """Returns the result of an asynchronous call.

        Raises ClusterError.
        """
        try:
            return self.translate(lambda: future.result(TIMEOUT_S + 5))
        except TimeoutError:
            raise self.cluster_error(KafkaError(KafkaError._TIMED_OUT)) from None

    def cluster_error(self, error: KafkaError) -> ClusterError:
        """Returns the ClusterError for an error of librdkafka, with a text for the user."""
        if error.code() in _UNREACHABLE:
            return self.unreachable(error.str())
        try:
            return ClusterError.refused(ErrorCode(error.code()), error.str())
        except ValueError:  # librdkafka's own error codes, whose names begin with _
            return ClusterError(f"{error.name().removeprefix('_')}: {error.str()}")

    def _wait_for_an_answer(self, client: AdminClient | Consumer | Producer, errors: list[KafkaError]) -> None:
        """Waits until a broker answers. Gives up early if all brokers are down or a broker refuses the credentials."""
        began_s = time.monotonic()
        for wait_s in _WAITS_S:
            try:
                client.list_topics(timeout=wait_s)
                return
            except KafkaException as exception:
                error = exception.args[0]
            client.poll(0)  # calls `error_cb`
            for known in errors:
                if known.code() in _HOPELESS:
                    raise self.cluster_error(known)
            are_down = any(known.code() == KafkaError._ALL_BROKERS_DOWN for known in errors)
            if are_down and time.monotonic() - began_s >= _PATIENCE_WITH_DEAD_BROKERS_S:
                break
        raise self.cluster_error(_reason(error, errors))


def _reason(error: KafkaError, errors: Iterable[KafkaError]) -> KafkaError:
    """Returns why a cluster is not reached: the failure of a connection with the longest text, else `error`.

    librdkafka adds the probable cause only to some of the failures, such as TLS at a listener without TLS.
    """
    failures = [known for known in errors if known.code() in _FAILED_CONNECTIONS]
    if error.code() not in _UNREACHABLE or not failures:
        return error
    texts = [_DURATION.sub("", known.str()) for known in failures]
    return KafkaError(error.code(), max(texts, key=len))
