"""A page of the documentation: the results as Markdown, one table in each section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.report import SHORT_NAMES, Outcome, Section, median_of, ratio_to_kafka, verdict_of
from bench.run import RowResult
from bench.workload import Figure

__all__ = ["markdown"]

_NONE = "-"
_EXPLANATIONS = Path(__file__).parent / "misses"
_SUBJECTS = {
    "": "produce, consume, start, memory",
    "groups": "consumer groups",
    "log": "the log",
    "spark": "the Spark source",
    "spark-sink": "the Spark sink",
    "pipelines": "pipelines",
    "clusters": "clusters",
    "handlers": "handlers of records",
}
"""The subject of each page, by the end of its name."""
_INTRODUCTIONS = {
    "": "How fast klamm produces, consumes, answers and starts, and how much memory it needs.",
    "groups": "What rebalances, commits, restarts and ten thousand groups cost.",
    "log": "What syncs, compaction and a restart cost.",
    "spark": "How fast klamm's Spark source reads, next to Spark's own Kafka connector. The columns are the brokers; "
    "the rows compare the two sources on the same broker.",
    "spark-sink": "How fast klamm's Spark sink writes, next to Spark's own Kafka connector. The columns are the "
    "brokers; the rows compare the two sinks on the same broker, with equal settings of the producer. One of them, "
    "`linger.ms=5`, has an effect on the connector only: klamm's sink fills record batches from whole tables of "
    "rows, and never waits for more. The connector's sink writes at least once only. Two cores can't carry the stream "
    "of 50,000 records/s: consumer, producer, broker and Spark share them. Its records wait for seconds with each "
    "sink, so the latencies there tell which query falls behind less.",
    "clusters": "The cost of three brokers on one machine that copy each partition, and the time of a failover. "
    "klamm's memory and processor time include etcd's. Each row starts new brokers. Apache Kafka's JVMs compile "
    "code while they run, so its first rounds may be slower: see the figures of each round.",
    "handlers": "How many records clients handle that call a function for each, up to 128 at once. The function waits "
    "for 0, 1 or 5 ms and does nothing else. There are 100 keys, and a hot one with 5 % of the records. "
    "klamm.worker and Parallel Consumer keep the order of each key, and commit only what is finished. The plain loop "
    "handles one record after another. The other clients keep no order, and commit records that are not finished: "
    "klamm.worker without order is their counterpart. So the targets compare clients that promise the same: with one "
    "hot key, a client that keeps order can't handle more than 4,000 records/s at 5 ms. The plain loop and FastStream "
    "handle fewer records where they would need minutes. The latency counts from the producer's timestamp to the end "
    "of the function.",
    "pipelines": "How fast a pipeline is, next to the same queries by hand on Spark's own Kafka connector. The columns "
    "are the brokers; the rows compare the two on the same broker. Both write dead letters by a second query. The "
    "connector's sink writes at least once only.",
}
_HOW_TO_READ = (
    "Each figure is the median over the rounds of its row; the brokers take turns, round after round. The ratio is "
    "klamm's figure divided by Kafka's. The target is a bound for the ratio (1 x) or for klamm's own figure. “Level” "
    "means that three rounds or more don't tell the brokers apart: the median of each lies within the other's rounds. "
    "“Mock” is librdkafka's mock cluster, which keeps everything in memory and shows what the client alone can do."
)
_HOW_TO_READ_PAIRS = _HOW_TO_READ[: _HOW_TO_READ.index(" “Mock”")]
_REPEATED = ("records_per_second", "p50_ms")
"""Figures that repeat the one next to them in another unit or percentile: their rounds are not printed."""


def markdown(outcome: Outcome, *, charts: Mapping[str, str], about: str) -> str:
    """Returns the whole document. `charts` maps the title of a section to the path of its chart, relative to the
    document; `about` is the topic of a page with only some rows.
    """
    how_to_read = _HOW_TO_READ if "mock" in outcome.peers else _HOW_TO_READ_PAIRS
    facts = {**outcome.facts, "Brokers": ", ".join(outcome.peers.values())}
    lines = [
        f"# Benchmarks: {_SUBJECTS.get(about, about)}",
        "",
        *([_INTRODUCTIONS[about], ""] if about in _INTRODUCTIONS else []),
        *(f"- {name}: {fact}" for name, fact in facts.items()),
        "",
        how_to_read,
        "",
        *(f"{_begin(SHORT_NAMES[peer])} was not measured: {reason}." for peer, reason in outcome.missing.items()),
    ]
    for section in outcome.sections():
        lines += [f"## {section.title}", ""]
        if section.title in charts:
            lines += [f"![{section.title}: bars of the table below]({charts[section.title]})", ""]
        lines += [*_table(section), "", *_not_measured(outcome, section)]
    if misses := list(_misses(outcome)):
        lines += ["## Rows that miss their target, or are level, and why", "", *misses]
    lines += ["## Round by round", ""]
    for section in outcome.sections():
        lines += [*_rounds(section), ""]
    lines += list(_usage(outcome, "broker_cpu_seconds", "Processor time of the broker per round, s", ".2f"))
    lines += list(_usage(outcome, "client_cpu_share", "Share of a core that the client used", ".0%"))
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _begin(name: str) -> str:
    """Returns the name as a sentence begins with it; klamm is never capitalized."""
    return name if name == "klamm" else name[0].upper() + name[1:]


def _name(figure: Figure) -> str:
    return f"{figure.title}, {figure.unit}" if figure.unit else figure.title


def _number(figure: Figure, value: float | None) -> str:
    return _NONE if value is None else f"{value:,.{figure.digits}f}"


def _table(section: Section) -> Iterator[str]:
    ratios = [ratio_to_kafka(result, figure.key) for figure, result in section.figures]
    has_ratios = any(ratio is not None for ratio in ratios)
    yield _line(["", *(SHORT_NAMES[peer] for peer in section.peers), *(["ratio"] if has_ratios else []), "target"])
    yield "|---|" + "---:|" * (len(section.peers) + has_ratios) + "---|"
    for (figure, result), ratio in zip(section.figures, ratios, strict=True):
        cells = [_name(figure), *(_number(figure, median_of(result, peer, figure.key)) for peer in section.peers)]
        if has_ratios:
            cells.append(_NONE if ratio is None else f"{ratio:.2f}")
        yield _line([*cells, _target(figure, result)])


def _target(figure: Figure, result: RowResult) -> str:
    sign = "≤" if figure.less_is_better else "≥"
    parts = []
    if figure.target is not None:
        parts.append(f"{sign} {figure.target:g} x")
    if figure.limit is not None:
        parts.append(f"{sign} {figure.limit:g} {figure.unit}")
    # A no-break space keeps the sign, the number and the unit in one line.
    bounds = ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)
    return f"{bounds}: {verdict_of(figure, result)}" if parts else ""


def _not_measured(outcome: Outcome, section: Section) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for workload in section.workloads:
        for peer, reason in outcome.results[workload.name].reasons.items():
            reasons.setdefault((peer, reason), []).append(workload.title)
    for (peer, reason), titles in reasons.items():
        rows = "" if len(titles) == len(section.workloads) else f" in {', '.join(f'“{title}”' for title in titles)}"
        yield f"{_begin(SHORT_NAMES[peer])} is not measured{rows}: {reason}."
        yield ""


def _misses(outcome: Outcome) -> Iterator[str]:
    """Yields the explanation from misses/<row>.md for each row that misses its target, or is level with it."""
    for workload in outcome.workloads:
        result = outcome.results[workload.name]
        verdicts = {verdict_of(figure, result) for figure in workload.figures}
        explanation = _EXPLANATIONS / f"{workload.name}.md"
        if "missed" in verdicts or ("level" in verdicts and explanation.exists()):
            yield f"### {workload.title}"
            yield ""
            yield explanation.read_text(encoding="utf-8").strip() if explanation.exists() else "Not explained yet."
            yield ""


def _rounds(section: Section) -> Iterator[str]:
    yield _line([section.title, "broker", "rounds, in order"])
    yield "|---|---|---|"
    for figure, result in section.figures:
        name = _name(figure)
        for peer in section.peers:
            if figure.key not in _REPEATED and peer in result.rounds:
                values = ", ".join(_number(figure, figures[figure.key]) for figures in result.rounds[peer])
                yield _line([name, SHORT_NAMES[peer], values])
                name = ""


def _usage(outcome: Outcome, key: str, title: str, digits: str) -> Iterator[str]:
    """Yields a table of what the rows used; nothing if no row has such a figure."""
    peers = list(outcome.peers)
    rows = []
    for workload in outcome.workloads:
        used = [median_of(outcome.results[workload.name], peer, key) for peer in peers]
        if any(value is not None for value in used):
            cells = (_NONE if value is None else format(value, digits) for value in used)
            rows.append(_line([workload.title, *cells]))
    if rows:
        yield from (_line([title, *(SHORT_NAMES[peer] for peer in peers)]), "|---|" + "---:|" * len(peers), *rows, "")
