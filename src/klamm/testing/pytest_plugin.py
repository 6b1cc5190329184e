"""The pytest plugin: a broker for the session, and a new topic for each test.

It is installed with klamm and needs no import.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from klamm.testing.embedded import Broker

__all__ = ["klamm_broker", "klamm_topic"]


@pytest.fixture(scope="session")
def klamm_broker() -> Iterator[Broker]:
    """Provides a broker for the whole session, with a temporary data folder."""
    from klamm.testing.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def klamm_topic(klamm_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Returns a unique topic name; the topic is created on first use, with the broker's default number of
    partitions."""
    return f"{re.sub('[^a-zA-Z0-9._-]', '-', request.node.name)[:80]}-{uuid.uuid4().hex[:8]}"
