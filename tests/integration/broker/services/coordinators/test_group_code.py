"""The code that decides for groups is imported on a thread, not on the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import importlib.abc, json, sys, threading, time

from klamm.broker.services.coordinators import coordinator_services
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.testing import Broker
from tests.support.wire import Wire

SHARD, TOPIC = "klamm.core.group.shard", "__consumer_offsets"
asks = sys.argv[1] == "request"
if asks:
    coordinator_services._GROUP_CODE_S = 3600  # only the request may import the code
found = []

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == SHARD:
            image = contexts[0].metadata.image
            found.append([threading.current_thread().name, TOPIC in image.topics])

async def context_of(server):
    return server.services.context

async def loop_thread(server):
    return threading.current_thread().name

contexts = []
sys.meta_path.insert(0, Finder())
with Broker() as broker:
    contexts.append(broker.run_in_broker(context_of))
    loop = broker.run_in_broker(loop_thread)
    if asks:
        with Wire(broker.bootstrap_servers) as wire:
            wire.call(FindCoordinatorResponse, 3, FindCoordinatorRequest(key="orders", key_type=0))
    deadline = time.monotonic() + 60
    while SHARD not in sys.modules and time.monotonic() < deadline:
        time.sleep(0.01)
    print(json.dumps({"loop": loop, "found": found, "has topic": TOPIC in contexts[0].metadata.image.topics}))
"""


def _imports(how: str) -> dict[str, Any]:
    """Returns the loop's thread name and, for each import, its thread and whether the topic existed already."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        cwd=Path(__file__).parents[5],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    noted: dict[str, Any] = json.loads(ran.stdout)
    return noted


def test_the_first_request_for_a_coordinator_imports_on_a_thread() -> None:
    """The first FindCoordinator request imports the group code on a thread, before `__consumer_offsets` is created and
    the coordinator loads partitions on the loop."""
    noted = _imports("request")
    ((thread, topic_exists),) = noted["found"]
    assert thread != noted["loop"]
    assert not topic_exists
    assert noted["has topic"]


def test_a_broker_without_groups_imports_on_a_thread() -> None:
    """A broker without groups imports the group code on a thread soon after its start, and creates no topic."""
    noted = _imports("wait")
    ((thread, topic_exists),) = noted["found"]
    assert thread != noted["loop"]
    assert not topic_exists
    assert not noted["has topic"]
