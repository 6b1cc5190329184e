"""Drives a `ProducerMachine` against a `ClusterModel` over connections that break, in simulated time.

Each connection is a pipe in both directions: requests are applied in order, and answers arrive in order. A connection
that breaks loses answers. The requests that the connection still carries are applied later, or never. A seed
determines the whole run.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random

from tests.support.cluster_model import ClusterModel

from klamm.client.config import Address
from klamm.client.errors import ConnectionFailed
from klamm.client.producer.actions import Connect, Disconnect, Send
from klamm.client.producer.machine import ProducerMachine
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.types import Millis

__all__ = ["Faults", "ProducerWorld", "Script"]

Script = Generator[Callable[[], bool], None, None]
"""The program of an application, which yields conditions and continues when the condition holds."""


@dataclass
class Faults:
    """The probabilities of the faults, for each request unless noted."""

    breaks: float = 0.0
    """The probability that the connection breaks before the request is applied."""
    lost_answers: float = 0.0
    """The probability that the connection breaks after the request is applied."""
    refused_connections: float = 0.0
    silence: float = 0.0
    """The probability that the answer never arrives, so that the request times out."""
    leader_changes: float = 0.0
    errors: float = 0.0
    late: float = 0.0
    """The probability that the requests on a broken connection are still applied later."""


@dataclass
class Pipe:
    """A connection."""

    number: int
    address: Address
    broker: int
    busy_until: int = 0
    carried: list[Send] = field(default_factory=list)
    """Requests that are not applied yet."""
    is_broken: bool = False
    is_silent: bool = False


class ProducerWorld:
    """A producer, a cluster, and a simulated clock in milliseconds."""

    def __init__(self, seed: int, config: ProducerConfig, *, partitions: int = 2, second_protocol: bool = True) -> None:
        self.random = Random(seed)
        self.now = Millis(1000)
        self.model = ClusterModel(self.random, partitions, second_protocol=second_protocol)
        self.machine = ProducerMachine(config, lambda: self.random.uniform(0.8, 1.2))
        self.faults = Faults()
        self.sent: list[Send] = []
        """All requests that the machine has sent."""
        self.longest_wait_ms = 3_600_000
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._pipes: dict[Address, Pipe] = {}
        self._brokers = {address: number for number, address in self.model.addresses.items()}

    def heal(self) -> None:
        """Ends all faults."""
        self.faults = Faults()
        self.model.error_rate = 0.0

    def run(self, script: Script) -> None:
        """Runs the application and the simulation until the application ends."""
        deadline = self.now + self.longest_wait_ms
        for is_done in script:
            self._poll()
            while not is_done():
                assert self._advance(), "nothing will ever happen again"
                assert self.now < deadline, "the producer does not get on"
                self._poll()

    def settle(self, duration_ms: int) -> None:
        """Runs the simulation for a duration."""
        end = Millis(self.now + duration_ms)
        self._at(duration_ms, lambda: None)
        while self.now < end:
            self._poll()
            self._advance()

    def _poll(self) -> None:
        while actions := self.machine.poll(self.now):
            for action in actions:
                self._act(action)

    def _advance(self) -> bool:
        """Processes the next event or timer. Returns False if there is none."""
        wake = self.machine.next_time()
        first = self._events[0][0] if self._events else float("inf")
        if min(wake, first) == float("inf"):
            return False
        if wake < first:
            self.now = Millis(int(wake) + (wake != int(wake)))
            return True
        self.now = Millis(max(self.now, int(first)))
        heapq.heappop(self._events)[2]()
        return True

    def _at(self, delay_ms: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_ms, next(self._numbers), event))

    def _happens(self, rate: float) -> bool:
        return self.random.random() < rate

    def _act(self, action: Connect | Send | Disconnect) -> None:
        if isinstance(action, Connect):
            self._at(self.random.randint(1, 5), lambda: self._connect(action.address))
        elif isinstance(action, Send):
            self.sent.append(action)
            pipe = self._pipes.get(action.address)
            if pipe is not None:
                pipe.carried.append(action)
                arrival = max(self.now + self.random.randint(0, 5), pipe.busy_until)
                pipe.busy_until = arrival
                self._at(arrival - self.now, lambda: self._arrive(pipe, action))
        else:
            self._drop(action.address)

    def _connect(self, address: Address) -> None:
        if self._happens(self.faults.refused_connections):
            self.machine.disconnected(address, ConnectionFailed("refused"), self.now)
            return
        broker = self._brokers.get(address, 1)
        self._pipes[address] = Pipe(next(self._numbers), address, broker)
        self.machine.connected(address, self.model.offers)

    def _arrive(self, pipe: Pipe, send: Send) -> None:
        if pipe.is_broken or pipe.is_silent:
            return
        if self._happens(self.faults.leader_changes):
            self.model.move(self.random.randrange(len(self.model.leaders)))
        if self._happens(self.faults.breaks):
            self._break(pipe)
            return
        if self._happens(self.faults.silence):
            pipe.is_silent = True
            return
        self.model.error_rate = self.faults.errors
        pipe.carried.remove(send)
        body = self.model.answer(pipe.broker, send.api_key, send.version, send.body)
        self._at(self.random.randint(1, 60), self.model.settle)
        if self._happens(self.faults.lost_answers):
            self._break(pipe)
            return
        arrival = max(self.now + self.random.randint(0, 5), pipe.busy_until)
        pipe.busy_until = arrival
        self._at(arrival - self.now, lambda: self._deliver(pipe, send, body))

    def _deliver(self, pipe: Pipe, send: Send, body: bytes) -> None:
        if not pipe.is_broken:
            self.machine.received(pipe.address, send.request_id, body if send.has_response else b"", self.now)

    def _break(self, pipe: Pipe) -> None:
        self._drop(pipe.address)
        self.machine.disconnected(pipe.address, ConnectionFailed("broken"), self.now)

    def _drop(self, address: Address) -> None:
        pipe = self._pipes.pop(address, None)
        if pipe is None:
            return
        pipe.is_broken = True
        if self._happens(self.faults.late):
            # The broker has the requests in its buffer, and reads them before it sees that the connection is closed.
            for send in pipe.carried:
                self._at(self.random.randint(0, 20), lambda send=send: self._apply_late(pipe, send))  # type: ignore[misc]

    def _apply_late(self, pipe: Pipe, send: Send) -> None:
        # The broker applies the requests in order, whatever their random delays.
        if send in pipe.carried:
            while pipe.carried:
                first = pipe.carried.pop(0)
                self.model.answer(pipe.broker, first.api_key, first.version, first.body)
                self._at(self.random.randint(1, 60), self.model.settle)
                if first is send:
                    return
