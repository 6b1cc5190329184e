"""Tests `make demo` itself: the command, with all its processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from examples.flights.output_folder import MARKER, WRITTEN

pytest.importorskip("pandas")

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_a_year_of_flights_with_a_killed_driver_and_a_killed_member(tmp_path: Path) -> None:
    """The demo kills its driver and a member of its queue, and ends with 0: topic, files and dead letters agree with
    pandas, the queue has handled each record at least once, and no group lags behind. All that it writes is in the
    folder that was named."""
    output = tmp_path / "output"
    command = [sys.executable, "-m", "examples.flights", "--seconds", "15", "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=850, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "the driver is killed, with its JVM and workers (SIGKILL)" in told
    assert "the pipeline goes on from its checkpoints" in told
    assert "member-2 of the queue is killed (SIGKILL)" in told
    handled = re.search(r"group queue: ([\d,]+) records handled, exactly those of the topic; ([\d,]+) of them", told)
    assert handled is not None, told
    assert handled[1] == "336,780"
    lags = re.findall(r"group (\S+): lag ([\d, ]+)\n", told)
    assert [group for group, _ in lags] == ["queue", "flights.delays", "flights.arrivals"]
    assert {lag for _, lags_of_group in lags for lag in lags_of_group.split(", ")} == {"0"}
    # Another name would be taken for a file of the user by the next demo.
    assert {"arrivals", "broker"} <= {path.name for path in output.iterdir()} <= {MARKER, *WRITTEN}
