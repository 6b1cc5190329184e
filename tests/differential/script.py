"""A script: requests to three brokers, whose answers are recorded, with brokers that are killed and started between."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from tests.differential import scripts
from tests.differential.answers import build, lines_of
from tests.differential.clusters import BROKERS, Brokers
from tests.interop.wire_conversations.masks import Masks
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import Message, encode
from klamm.protocol.errors import ErrorCode

__all__ = ["SCRIPTS", "Run", "Script", "load_scripts", "play", "script"]

Script: TypeAlias = "Callable[[Run], None]"

SCRIPTS: Final[dict[str, Script]] = {}
"""All scripts, by name, after `load_scripts`."""

_STATE_SECONDS: Final = 20
"""On an idle machine; Apache Kafka needs some seconds to notice that a broker is gone."""
_LOOK_INTERVAL_S: Final = 0.02
# Their newest versions have ids instead of names of topics.
_VERSIONS: Final = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,  # the newest one for clients
}
_OWN_NUMBERS: Final = {"controller_id"}


class Run:
    """One run of a script on a cluster. `steps` has the recorded answers: a label, and the lines of the answer.

    `name` begins the names of all topics and groups of this run; the record has a tilde instead.
    """

    def __init__(self, name: str, brokers: Brokers) -> None:
        self.name = name
        self.steps: list[tuple[str, list[str]]] = []
        self._brokers = brokers
        self._masks = Masks(*(int(brokers.address(broker).rpartition(":")[2]) for broker in BROKERS))
        self._wires: dict[int, Wire] = {}
        self._running = set(BROKERS)
        self._left: set[int] = set()
        """Brokers that were unregistered while they ran. Those of Apache Kafka still run, without work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hang_up()

    # Requests

    def ask(self, label: str, api: ApiKey, *, broker: int = 1, version: int | None = None, **fields: object) -> Any:
        """Sends a request to a broker, records the answer under a label, and returns it."""
        answer = self.call(api, broker=broker, version=version, **fields)
        self.record(label, api, answer, version)
        return answer

    def ask_until(
        self,
        label: str,
        holds: Callable[[Any], object],
        api: ApiKey,
        *,
        broker: int = 1,
        version: int | None = None,
        **fields: object,
    ) -> Any:
        """Sends a request again until a condition holds for its answer; records and returns this answer.

        Records the last answer if the condition does not hold in time.
        """
        answers: list[Any] = []

        def is_there() -> bool:
            answers[:] = [self.call(api, broker=broker, version=version, **fields)]
            return bool(holds(answers[0]))

        _poll(is_there)
        self.record(label, api, answers[0], version)
        return answers[0]

    def record(self, label: str, api: ApiKey, answer: Message, version: int | None = None) -> None:
        """Records an answer."""
        assert all(label != before for before, _ in self.steps), f"two steps with the label {label!r}"
        assert not label.startswith(("broker ", "#", " ")), f"the language of the records has another use for {label!r}"
        version = _version(api) if version is None else version
        tree = self._masks.mask(answer, version, (self.name,))
        assert isinstance(tree, dict)
        tree = {name: f"<{name}>" if name in _OWN_NUMBERS else value for name, value in tree.items()}
        self.steps.append((label, lines_of(tree)))

    def call(self, api: ApiKey, *, broker: int = 1, version: int | None = None, **fields: object) -> Any:
        """Sends a request to a broker and returns the answer, without recording it."""
        spec = API_SPECS[api]
        request = build(spec.request_class(), fields)
        version = _version(api) if version is None else version
        return self._wire(broker).call(spec.response_class(), version, request)

    def send(self, api: ApiKey, *, broker: int = 1, version: int | None = None, **fields: object) -> None:
        """Sends a request that gets no answer, on a connection of its own."""
        version = _version(api) if version is None else version
        with Wire(self._brokers.address(broker)) as wire:
            wire.send(api, version, encode(build(API_SPECS[api].request_class(), fields), version))
            wire.send(ApiKey.API_VERSIONS, 0, b"")  # its answer says that the request before has been processed
            wire.receive(ApiKey.API_VERSIONS, 0)

    def _wire(self, broker: int) -> Wire:
        if broker not in self._wires:
            self._wires[broker] = Wire(self._brokers.address(broker))
            self._wires[broker].socket.settimeout(60)
        return self._wires[broker]

    def _hang_up(self) -> None:
        for wire in self._wires.values():
            wire.socket.close()
        self._wires.clear()

    # Brokers

    @property
    def running(self) -> list[int]:
        """The brokers that run."""
        return sorted(self._running)

    def kill(self, broker: int) -> None:
        """Kills a broker, and waits until the others list it no more."""
        self._forget(broker)
        self._running.remove(broker)
        self._brokers.kill(broker)
        self.wait_for(lambda: all(broker not in self._listed(other) for other in self.running))

    def leave(self, broker: int) -> None:
        """Asks a running broker nothing more, because it was unregistered. Waits until the others list it no more."""
        self._forget(broker)
        self._running.remove(broker)
        self._left.add(broker)
        self.wait_for(lambda: all(broker not in self._listed(other) for other in self.running))

    def start(self, broker: int) -> None:
        """Starts a broker again, and waits until all running brokers list it."""
        if broker in self._left:
            self._left.remove(broker)
            self._brokers.kill(broker)
        self._brokers.start(broker)
        self._running.add(broker)
        self.wait_for(lambda: all(broker in self._listed(other) for other in self.running))

    def restore(self) -> None:
        """Starts all brokers that the script has left dead."""
        for broker in BROKERS:
            if broker not in self._running:
                self.start(broker)

    def _forget(self, broker: int) -> None:
        wire = self._wires.pop(broker, None)
        if wire is not None:
            wire.socket.close()

    def _listed(self, broker: int) -> set[int]:
        answer = self.call(ApiKey.METADATA, broker=broker, topics=[])
        return {each.node_id for each in answer.brokers}

    # Topics

    def topic(
        self, suffix: str = "t", replicas: tuple[int, ...] = (1, 2, 3), partitions: int = 1, **configs: str
    ) -> str:
        """Creates a topic whose partitions have these replicas, and waits until every broker knows their leader.

        `configs` has underscores instead of dots.
        """
        name = f"{self.name}-{suffix}"
        assignments = [{"partition_index": index, "broker_ids": list(replicas)} for index in range(partitions)]
        values = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        wanted = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assignments,
            "configs": values,
        }
        (made,) = self.call(ApiKey.CREATE_TOPICS, topics=[wanted], timeout_ms=30_000).topics
        # A broker of Apache Kafka sends the request to the controller again if another node becomes the controller.
        assert made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), made
        for index in range(partitions):
            self.wait_for_partition(name, index, lambda found: found.leader_id == replicas[0])
        (known,) = self.call(ApiKey.METADATA, topics=[{"name": name}]).topics
        self._masks.learn_topic(name, known.topic_id)
        return name

    def partition(self, topic: str, index: int = 0, broker: int = 1) -> Any:
        """Returns what a broker's Metadata says about a partition; None if it does not know the topic."""
        (found,) = self.call(ApiKey.METADATA, broker=broker, topics=[{"name": topic}]).topics
        return next((each for each in found.partitions if each.partition_index == index), None)

    def wait_for_partition(self, topic: str, index: int, holds: Callable[[Any], object]) -> None:
        """Waits until the Metadata of each running broker fulfils a condition, and the leader answers as leader."""

        def is_there() -> bool:
            seen = [self.partition(topic, index, broker) for broker in self.running]
            if not all(each is not None and holds(each) for each in seen):
                return False
            return seen[0].leader_id not in self._running or self._serves(topic, index, seen[0].leader_id)

        self.wait_for(is_there)

    def _serves(self, topic: str, index: int, broker: int) -> bool:
        partition = {"partition_index": index, "timestamp": -1}
        answer = self.call(ApiKey.LIST_OFFSETS, broker=broker, topics=[{"name": topic, "partitions": [partition]}])
        code: int = answer.topics[0].partitions[0].error_code
        return code == ErrorCode.NONE

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Checks a condition again until it holds. Raises AssertionError if it does not hold for a long time."""
        assert _poll(holds), f"{self.name}: a state was not reached; steps so far: {[label for label, _ in self.steps]}"


def _poll(holds: Callable[[], bool]) -> bool:
    limit = Limit(_STATE_SECONDS)
    while not holds():
        if limit.is_over:
            return False
        time.sleep(_LOOK_INTERVAL_S)
    return True


def play(name: str, brokers: Brokers) -> list[tuple[str, list[str]]]:
    """Plays a script and returns its steps. All brokers run again at the end."""
    with Run(name, brokers) as run:
        try:
            SCRIPTS[name](run)
        finally:
            run.restore()
    return run.steps


def _version(api: ApiKey) -> int:
    return _VERSIONS.get(api, API_SPECS[api].max_version)


def script(function: Script) -> Script:
    """Registers a function as a script, by its name with hyphens."""
    name = function.__name__.replace("_", "-")
    assert name not in SCRIPTS, name
    SCRIPTS[name] = function
    return function


def load_scripts() -> None:
    """Imports all modules of scripts."""
    for module in iter_modules(scripts.__path__):
        import_module(f"{scripts.__name__}.{module.name}")
