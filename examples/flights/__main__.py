"""`make demo`: a year of flights in 30 seconds, read by a queue of three members and by a pipeline on Spark.

The pipeline writes a topic and files, exactly once, although its driver is killed half-way. At the end both are
compared with what pandas computes from the file of flights. The queue, of which a member is killed, must have handled
each flight at least once.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from examples.flights import comparison, data, expected, outcome
from examples.flights.driver import FLOWS, PIPELINE_FILE, Driver
from examples.flights.members import Members
from examples.flights.output_folder import prepare_output
from examples.flights.play import Play
from examples.flights.replay import FLIGHTS_TOPIC, PARTITIONS, Replay, create_topics
from examples.flights.screen import Screen
from examples.flights.watch import Watcher
from klamm import Broker, KlammError

if TYPE_CHECKING:
    import pandas

QUEUE: Final = "queue"
HANDLED: Final = "handled"
GROUPS: Final = {flow: f"flights.{flow}" for flow in FLOWS}
DELAYS_TOPIC: Final = "delays"
DEAD_LETTERS_TOPIC: Final = "flights.delays.dead-letters"
INTERRUPTED: Final = 130


def main() -> int:
    """Runs the demo. Returns 0 only if topic, files, dead letters and pandas agree, the queue has handled each flight,
    and no group lags behind."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the year takes (default 30)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        help="a new or empty folder, or one of an earlier demo, whose output is removed (default demo-output)",
    )
    arguments = parser.parse_args()
    directory = arguments.output.resolve()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        prepare_output(directory)
        return run(directory, arguments.seconds)
    except KlammError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; its processes are ended", file=sys.stderr)
        return INTERRUPTED


def run(directory: Path, seconds: float) -> int:
    """Runs all acts, and compares."""
    began_s = time.monotonic()
    with Broker(directory / "broker") as broker:
        servers = broker.bootstrap_servers
        print(f"broker:   {servers}, ready after {time.monotonic() - began_s:.2f} s")
        create_topics(servers, FLIGHTS_TOPIC, DELAYS_TOPIC)
        with (
            Driver(servers, directory) as driver,
            Members(servers, FLIGHTS_TOPIC, QUEUE, directory / HANDLED) as members,
        ):
            print(f"pipeline: klamm pipeline run {PIPELINE_FILE.name} -b {servers}   (Spark starts: some seconds)")
            flights = data.load_flights()
            records = data.records_of(flights)
            print(f"data:     {len(flights):,} flights of 2013, and three damaged records among them")
            watcher = Watcher(servers, FLIGHTS_TOPIC, PARTITIONS, QUEUE, (QUEUE, *GROUPS.values()))
            watcher.start()
            try:
                with Screen(watcher, QUEUE, GROUPS) as screen:
                    replay = Replay(servers, FLIGHTS_TOPIC, records, seconds)
                    Play(replay, members, driver, watcher, screen).run()
            finally:
                watcher.stop()
        ends = [lane.high_watermark for lane in watcher.latest.lanes]
        agrees = compare(servers, directory, flights, driver, ends)
        lags = {group: [lane.lag(group) for lane in watcher.latest.lanes] for group in (QUEUE, *GROUPS.values())}
        for group, of_group in lags.items():
            print(f"group {group}: lag {', '.join(map(str, of_group))}")
    print(f"what the broker stored: {directory / 'broker'}   (klamm serve --data-dir {directory / 'broker'})")
    print(f"took {time.monotonic() - began_s:.0f} s")
    is_read = all(lag == 0 for of_group in lags.values() for lag in of_group)
    return 0 if agrees and is_read else 1


def compare(
    bootstrap_servers: str, directory: Path, flights: pandas.DataFrame, driver: Driver, ends: Sequence[int]
) -> bool:
    """Prints what the pipeline has written next to what pandas computes, and what the queue has handled next to the
    topic of flights with its end offsets. Returns whether all of it agrees."""
    delays = outcome.read_delays(bootstrap_servers, DELAYS_TOPIC)
    expected_delays = expected.expected_delays(flights)
    comparison.show_most_delayed(delays, expected_delays)
    results = [
        comparison.compare(f"topic {DELAYS_TOPIC}", "sums of an airport and a day", delays, expected_delays),
        comparison.compare(
            "files in arrivals",
            "flights with their weather",
            outcome.read_arrivals(directory / "arrivals"),
            expected.expected_arrivals(flights),
        ),
        comparison.compare_dead_letters(
            f"topic {DEAD_LETTERS_TOPIC}",
            outcome.read_dead_letters(bootstrap_servers, DEAD_LETTERS_TOPIC),
            data.damaged_copies(data.encode_flights(flights)),
        ),
        comparison.compare_handled(f"group {QUEUE}", outcome.read_handled(directory / HANDLED), ends),
    ]
    print(f"flow arrivals: dropped {driver.bad_records['arrivals']:,} bad records, as it is declared")
    return all(results)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ends the demo once; further signals must not interrupt the end of its processes."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
