"""`make demo`: a year of flights in 30 seconds, read by a queue of three members and by a Spark query, side by
side. The query writes delays to a second topic, which a third group reads."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights import data, delays
from examples.flights.members import MEMBER_NAMES, Members
from examples.flights.replay import Replay
from examples.flights.screen import Screen
from examples.flights.watch import Snapshot, Watcher
from klamm import Broker, KlammError

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "flights"
DELAYS_TOPIC: Final = "delays"
PARTITIONS: Final = 6
QUEUE: Final = "queue"
SPARK: Final = "spark-delays"
REPORT: Final = "report"
VICTIM: Final = "member-2"
TICK_S: Final = 0.2
PATIENCE_S: Final = 90.0


def main() -> int:
    """Runs the demo.

    Returns 1 when Spark and pandas disagree or a group lags behind at the end.
    """
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the year takes (default 30)")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="an empty or new folder (default demo-output)"
    )
    arguments = parser.parse_args()
    directory = arguments.output.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        return run(directory, arguments.seconds)
    except KlammError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def run(directory: Path, seconds: float) -> int:
    """The whole play, in acts."""
    began_s = time.monotonic()
    with Broker(directory / "broker") as broker:
        print(f"broker:  {broker.bootstrap_servers}, ready after {time.monotonic() - began_s:.2f} s")
        create_topics(broker.bootstrap_servers)
        flights = data.load_flights()
        records = data.encode_flights(flights)
        records.append(data.closing_event(records[-1]))
        print(f"data:    {len(flights):,} flights of 2013; Spark starts (some seconds)")
        with Members(broker.bootstrap_servers, TOPIC, QUEUE) as members:
            spark = start_spark(directory / "spark.log")
            query = delays.start_query(
                spark,
                broker.bootstrap_servers,
                flights_topic=TOPIC,
                delays_topic=DELAYS_TOPIC,
                group=SPARK,
                directory=directory,
            )
            watcher = Watcher(broker.bootstrap_servers, TOPIC, PARTITIONS, QUEUE, (QUEUE, SPARK))
            watcher.start()
            try:
                with Screen(watcher, QUEUE, SPARK) as screen:
                    wait_for_owners(watcher, query)
                    screen.say(f"three members share {PARTITIONS} partitions: {shares(watcher.latest)}")
                    replay = Replay(broker.bootstrap_servers, TOPIC, records, seconds)
                    play(replay, members, watcher, screen, query)
            finally:
                watcher.stop()
            query.stop()
            result = delays.read_delays(broker.bootstrap_servers, DELAYS_TOPIC, REPORT, PARTITIONS)
            print(
                f"Spark wrote to the topic {DELAYS_TOPIC}; the group {REPORT} has read {len(result):,} records from it"
            )
            agrees = report(result, flights)
            lags = {group: [lane.lag(group) for lane in watcher.latest.lanes] for group in (QUEUE, SPARK)}
            for group, of_group in lags.items():
                print(f"lag of {group}: {', '.join(map(str, of_group))}")
            spark.stop()
    print(f"what the broker stored: {directory / 'broker'}   (klamm serve --data-dir {directory / 'broker'})")
    print(f"what Spark said:        {directory / 'spark.log'}")
    print(f"took {time.monotonic() - began_s:.0f} s")
    is_read = all(lag == 0 for of_group in lags.values() for lag in of_group)
    return 0 if agrees and is_read else 1


def start_spark(log: Path) -> SparkSession:
    """A Spark session whose JVM writes what it has to say to a file, not into the picture."""
    from klamm.spark import session

    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 2)
    try:
        return session("klamm demo", master="local[2]")
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def create_topics(bootstrap_servers: str) -> None:
    """Six partitions each, and no retention by time: the records of the flights say that they are of 2013."""
    config = {"retention.ms": "-1"}
    topics = [
        NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config=config) for name in (TOPIC, DELAYS_TOPIC)
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for created in admin.create_topics(topics).values():
        created.result()


def wait_for_owners(watcher: Watcher, query: StreamingQuery) -> None:
    """Until every partition has an owner and the query runs.

    Raises KlammError when that takes too long.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        check(query)
        lanes = watcher.latest.lanes
        if {lane.owner for lane in lanes} == set(MEMBER_NAMES) and query.lastProgress is not None:
            return
        time.sleep(TICK_S)
    raise KlammError("the members or the query did not get ready")


def play(replay: Replay, members: Members, watcher: Watcher, screen: Screen, query: StreamingQuery) -> None:
    """Replays the year, kills a member half-way, and ends when both groups have read everything."""
    replay.start()
    before: Snapshot | None = None
    is_moved = False
    deadline_s = time.monotonic() + PATIENCE_S + 60
    killed_s = 0.0
    while time.monotonic() < deadline_s:
        check(query)
        if replay.failure is not None:
            raise KlammError(f"a flight could not be written: {replay.failure}")
        if before is None and replay.progress >= 0.5:
            before = watcher.latest
            members.kill(VICTIM)
            killed_s = time.monotonic()
            screen.say(
                f"{VICTIM} is killed (SIGKILL); it owned partitions {' and '.join(map(str, owned(before, VICTIM)))}"
            )
        if before is not None and not is_moved and has_moved(watcher.latest):
            is_moved = True
            screen.say(describe_takeover(before, watcher.latest, time.monotonic() - killed_s, query))
        if not replay.is_alive() and is_moved and is_read(watcher.latest, replay.written):
            query.processAllAvailable()
            flights = replay.written - 1
            screen.say(f"all {flights:,} flights, and the record that ends the year, are read by both groups")
            return
        screen.show(replay.moment_ms)
        time.sleep(TICK_S)
    raise KlammError("the groups did not get to the end of the topic")


def check(query: StreamingQuery) -> None:
    """Raises KlammError when the query has died."""
    error = query.exception()
    if error is not None:
        raise KlammError(f"the Spark query failed: {error}")


def owned(snapshot: Snapshot, member: str) -> list[int]:
    """The partitions of a member."""
    return [index for index, lane in enumerate(snapshot.lanes) if lane.owner == member]


def shares(snapshot: Snapshot) -> str:
    """Who owns what, as text."""
    return ", ".join(f"{name} has {' and '.join(map(str, owned(snapshot, name)))}" for name in MEMBER_NAMES)


def has_moved(snapshot: Snapshot) -> bool:
    """Whether the victim's partitions have new owners."""
    owners = {lane.owner for lane in snapshot.lanes}
    return VICTIM not in snapshot.members and VICTIM not in owners and None not in owners


def describe_takeover(before: Snapshot, after: Snapshot, elapsed_s: float, query: StreamingQuery) -> str:
    """The line that tells of the take-over, from what was seen before and after."""
    orphans = owned(before, VICTIM)
    heirs = [(after.lanes[index].owner or "no owner").removeprefix("member-") for index in orphans]
    spark = "was not touched" if query.isActive and SPARK not in after.members else "WAS TOUCHED"
    return (
        f"{VICTIM} died, no heartbeat for 6 s: partitions {' and '.join(map(str, orphans))} went to members "
        f"{' and '.join(heirs)} ({elapsed_s:.1f} s after the kill); Spark's group {spark}"
    )


def is_read(snapshot: Snapshot, written: int) -> bool:
    """Whether both groups stand at the end of everything that was written."""
    total = sum(lane.high_watermark for lane in snapshot.lanes)
    return total >= written and all(lane.lag(group) == 0 for lane in snapshot.lanes for group in (QUEUE, SPARK))


def report(result: pandas.DataFrame, flights: pandas.DataFrame) -> bool:
    """Prints the ten most delayed airports, by Spark from its topic and by pandas from the file.

    Whether all days agree.
    """
    from rich.console import Console
    from rich.table import Table

    keys = ["airport", "day"]
    expected = data.delays_by_airport_and_day(flights).sort_values(keys, ignore_index=True)
    result = result[expected.columns].sort_values(keys, ignore_index=True)
    table = Table(title="The ten most delayed airports of 2013, mean delay on arrival", title_justify="left")
    for column in ("airport", "flights", f"Spark, topic {DELAYS_TOPIC}", "pandas, from the file"):
        table.add_column(column, justify="left" if column == "airport" else "right")
    by_spark, by_pandas = means(result), means(expected)
    for airport in by_pandas.head(10).index:
        spark = by_spark["mean"].get(airport, float("nan"))
        table.add_row(
            airport, f"{by_pandas['flights'][airport]:,}", f"{spark:.2f} min", f"{by_pandas['mean'][airport]:.2f} min"
        )
    Console().print(table)
    numbers = {"flights": "int64", "delay_minutes": "int64"}
    agrees = bool(expected.astype(numbers).equals(result.astype(numbers)))
    print(
        f"Spark and pandas agree on all {len(expected):,} pairs of airport and day"
        if agrees
        else f"Spark and pandas DISAGREE: {len(result):,} pairs of airport and day from Spark, "
        f"{len(expected):,} from pandas"
    )
    return agrees


def means(days: pandas.DataFrame) -> pandas.DataFrame:
    """Flights and mean delay of each airport, the most delayed first."""
    sums = days.groupby("airport")[["flights", "delay_minutes"]].sum()
    sums["mean"] = sums["delay_minutes"] / sums["flights"]
    return sums.sort_values("mean", ascending=False)


if __name__ == "__main__":
    sys.exit(main())
