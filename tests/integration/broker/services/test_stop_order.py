"""A broker stops its components in the reverse order of their start."""

from __future__ import annotations

import errno
import functools
import socket
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import Any

import pytest

from klamm.broker.network.listener import Listener
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.services.coordinators.coordinator_services import CoordinatorServices
from klamm.broker.services.logs.housekeeping import Housekeeping
from klamm.broker.services.logs.log_cleaning import LogCleaning
from klamm.broker.services.logs.log_failure_handler import LogFailureHandler
from klamm.broker.services.logs.partition_services import PartitionServices
from klamm.broker.services.logs.traffic_meter import TrafficMeter
from klamm.broker.services.metrics.metrics import MetricsListener
from klamm.errors import KlammError
from klamm.metadata.service import MetadataService
from klamm.storage.directory.directory_owner import DirectoryOwner
from klamm.testing import Broker

COMPONENTS: list[tuple[type, str, str]] = [
    (DirectoryOwner, "lock", "unlock"),
    (PartitionServices, "__init__", "stop"),
    (MetadataService, "__init__", "close"),
    (LogFailureHandler, "start", "stop"),
    (CoordinatorServices, "__init__", "stop"),
    (TrafficMeter, "start", "stop"),
    (LogCleaning, "start", "stop"),
    (Housekeeping, "start", "stop"),
    (Listener, "serve", "stop"),
    (MetricsListener, "start", "stop"),
]
"""Each component with its start method and its stop method, in the order of the start."""
NAMES = [component.__name__ for component, _, _ in COMPONENTS]


class Order:
    """The order in which the components started and stopped."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.stopped: list[str] = []
        self.under_way: list[str] = []
        """Components whose stop has begun and not ended."""

    def noting_start(self, name: str, start: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the start method, which records its first call since the component last stopped."""

        @functools.wraps(start)
        def noting(*arguments: Any, **keywords: Any) -> Any:
            if self.started.count(name) == self.stopped.count(name):
                self.started.append(name)
            return start(*arguments, **keywords)

        return noting

    def noting_stop(self, name: str, stop: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the stop method, which records its end and asserts that no other stop is running when it begins."""

        def begins() -> None:
            assert not self.under_way, f"{name} stops before {self.under_way} has stopped"
            self.under_way.append(name)

        def ends() -> None:
            self.under_way.remove(name)
            self.stopped.append(name)

        @functools.wraps(stop)
        async def noting_later(*arguments: Any, **keywords: Any) -> Any:
            begins()
            result = await stop(*arguments, **keywords)
            ends()
            return result

        @functools.wraps(stop)
        def noting(*arguments: Any, **keywords: Any) -> Any:
            begins()
            result = stop(*arguments, **keywords)
            ends()
            return result

        return noting_later if iscoroutinefunction(stop) else noting


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Iterator[Order]:
    """Records when the components of brokers start and stop. The components do their usual work."""
    order = Order()
    for component, start, stop in COMPONENTS:
        name = component.__name__
        monkeypatch.setattr(component, start, order.noting_start(name, getattr(component, start)))
        monkeypatch.setattr(component, stop, order.noting_stop(name, getattr(component, stop)))
    yield order
    assert not order.under_way


def test_components_stop_in_the_reverse_order_of_their_start(order: Order) -> None:
    """Each component stops before the components that it uses. One stop ends before the next one begins."""
    with Broker(config={"klamm.metrics.listener": "127.0.0.1:0"}):
        assert order.started == NAMES
        assert not order.stopped
    assert order.stopped == NAMES[::-1]


def test_a_second_stop_stops_nothing_again(order: Order) -> None:
    """A second stop of the embedded broker, at the end of its `with` block, stops no component again."""
    with Broker() as broker:
        broker.stop()
    assert order.stopped == order.started[::-1]


def test_a_start_that_fails_at_the_listener_starts_nothing(order: Order) -> None:
    """The listener binds its address before all services start, so nothing starts if the address is in use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(port=taken.getsockname()[1], config={"klamm.metrics.listener": "127.0.0.1:0"})
        with pytest.raises(KlammError, match="is in use"):
            broker.start()
    assert order.started == order.stopped == []
    with broker:
        assert order.started == NAMES


def test_a_listener_that_can_not_serve_stops_what_has_started(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a listener can't accept connections although its address was free, the started services stop in the reverse
    order, and the data folder can be used again."""
    with monkeypatch.context() as failing:
        failing.setattr(Listener, "serve", order.noting_start("Listener", _fail_to_serve))
        broker = Broker()
        with pytest.raises(KlammError, match="is in use"):
            broker.start()
    assert order.started == NAMES[:-1]
    assert order.stopped == NAMES[-2::-1]
    with broker:
        assert order.started[len(NAMES) - 1 :] == NAMES[:-1]


async def _fail_to_serve(*arguments: object) -> None:
    raise OSError(errno.EADDRINUSE, "in use")


def test_a_start_that_fails_in_the_middle_stops_only_what_has_started(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the partitions fail to load, only the components that have started are stopped, in the reverse order."""

    def fail(*arguments: object) -> None:
        raise KlammError("the partitions can't be led")

    monkeypatch.setattr(PartitionRegistry, "apply", fail)
    with pytest.raises(KlammError, match="can't be led"):
        Broker().start()
    assert order.started == NAMES[: NAMES.index("TrafficMeter")]
    assert order.stopped == order.started[::-1]
