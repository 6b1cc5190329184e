"""`python -m bench`: compiles and installs missing parts, runs the rows, writes the tables and the charts."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.load_programs import LoadPrograms, SetUpError
from bench.page import markdown
from bench.peers import BASELINE, PEER_NAMES, USUAL_PEERS, Klamm, Peer, PeerUnavailable, make_peer
from bench.picture import draw
from bench.record import read_record, write_record
from bench.report import Outcome, machine_facts
from bench.run import RowResult, Runner
from bench.workload import Load
from bench.workloads import WORKLOADS

_ROOT = Path(__file__).parents[1]
_CACHE = _ROOT / "bench" / ".peers"
_RECORDED = _ROOT / "bench" / "recorded"
_DOCS = _ROOT / "docs"
_CHARTS = "benchmark-charts"
_QUICK_SCALE = 0.25


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    rows = [workload.name for workload in WORKLOADS]
    parser.add_argument("--quick", action="store_true", help="a quarter of the load, two rounds")
    parser.add_argument(
        "--scale", type=_scale, metavar="SHARE", help="this share of the load, as 0.02 (default: 1, with --quick 0.25)"
    )
    parser.add_argument(
        "--only", action="append", choices=rows, metavar="ROW", help=f"one of {', '.join(rows)}; may be repeated"
    )
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="CHECKOUT",
        help="one more peer: the klamm in this other checkout, to compare with",
    )
    parser.add_argument(
        "--peers",
        default=",".join(USUAL_PEERS),
        help=f"which brokers, in turn (default: %(default)s; all: {','.join(PEER_NAMES)})",
    )
    parser.add_argument(
        "--output", type=Path, default=_ROOT / "bench" / "results", help="folder for tables, charts, raw figures"
    )
    parser.add_argument(
        "--docs",
        nargs="?",
        const="benchmarks",
        metavar="PAGE",
        help="also write docs/PAGE.md, its charts and bench/recorded/PAGE.json (default: benchmarks)",
    )
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="measure nothing: write the pages of docs/ and their charts from the figures in bench/recorded",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="run klamm under a sampling profiler, into OUTPUT/profiles (slows it a little)",
    )
    return parser.parse_args(argv)


def _scale(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("it lies between 0 and 1")
    return share


def _say(line: str) -> None:
    print(line, flush=True)


def _write_page(outcome: Outcome, page: Path) -> None:
    """Writes the tables to `page`, and the charts of the sections that compare brokers to a folder next to it."""
    charts: dict[str, str] = {}
    for section in outcome.sections():
        if len(section.peers) > 1:
            chart = page.parent / _CHARTS / f"{section.workloads[0].name}.svg"
            chart.parent.mkdir(exist_ok=True)
            chart.write_text(draw(section), encoding="utf-8")
            charts[section.title] = f"{_CHARTS}/{chart.name}"
    page.write_text(markdown(outcome, charts=charts, about=page.stem.partition("-")[2]), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the bench. Returns 1 if no broker is available or the bench can't be set up, else 0."""
    arguments = _arguments(argv)
    if arguments.redraw:
        for record in sorted(_RECORDED.glob("*.json")):
            _write_page(read_record(record), _DOCS / f"{record.stem}.md")
        return 0
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    try:
        programs = LoadPrograms(_CACHE / "programs")
    except SetUpError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in [*arguments.peers.split(","), *([BASELINE] if arguments.baseline else [])]:
        try:
            if name == BASELINE and arguments.baseline:
                peers[name] = Klamm(checkout=arguments.baseline)
                continue
            if name not in PEER_NAMES:
                raise PeerUnavailable(f"is not one of {', '.join(PEER_NAMES)}")
            profiles = output / "profiles" if arguments.profile else None
            peers[name] = make_peer(name, programs=programs, cache=_CACHE, profile_folder=profiles)
        except PeerUnavailable as error:
            missing[name] = str(error)
            _say(f"{name}: {error}")
    if not peers:
        return 1
    workloads = [workload for workload in WORKLOADS if not arguments.only or workload.name in arguments.only]
    runs = _CACHE / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    scale: float = arguments.scale or (_QUICK_SCALE if arguments.quick else 1.0)
    load = Load(programs, scale)
    runner = Runner(peers, load, arguments.quick, runs, _say)

    written = [(output / "benchmarks.md", output / "benchmarks.json")]
    if arguments.docs:
        written.append((_DOCS / f"{arguments.docs}.md", _RECORDED / f"{arguments.docs}.json"))
    kind = "quick, " if arguments.quick else ""
    kind += f"{scale:g} of the load, " if arguments.scale else ""
    profiled = ", klamm under a profiler" if arguments.profile else ""
    started = time.monotonic()
    results: dict[str, RowResult] = {}
    for measured, workload in enumerate(workloads, 1):
        _say(workload.title)
        results[workload.name] = runner.run_row(workload)
        minutes = (time.monotonic() - started) / 60
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        facts = {"Date": date, **machine_facts(), "Run": f"{kind}{minutes:.0f} minutes{profiled}"}
        names = {key: peer.name for key, peer in peers.items()}
        outcome = Outcome(workloads[:measured], results, names, missing, facts)
        # Written after each row, so that an interrupted run keeps its results.
        for page, record in written:
            _write_page(outcome, page)
            write_record(outcome, record)
    _say(markdown(outcome, charts={}, about=""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
