"""Reads the first row of a topic; the bench measures it from the process's start, including the session.

python -m bench.spark.first_row BOOTSTRAP TOPIC SOURCE CONNECTOR_JARS
"""

from __future__ import annotations

import sys

from bench.spark.sources import SOURCES, bench_session, print_figures


def main() -> None:
    bootstrap, topic, source, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=False)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    row = spark.read.format(SOURCES[source]).options(**options).load().first()
    assert row is not None
    print_figures({"offset": row["offset"]})
    # The figure does not include Spark's stop: the bench reads the line and ends the process.
    sys.stdin.readline()


if __name__ == "__main__":
    main()
