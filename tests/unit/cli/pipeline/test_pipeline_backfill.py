"""Tests the borders of `klamm pipeline backfill`, and options that its target does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.errors import UsageError
from klamm.cli.main import FAILED, WRONG_USE, main
from klamm.cli.pipeline.pipeline_backfill import border
from klamm.pipelines.run.backfill.backfill_range import EARLIEST, LATEST, Border
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition

_FILE = """
from klamm.pipelines import Pipeline, to_files, topic

pipeline = Pipeline("flights")
pipeline.flow(source=topic("flights"), sink=to_files("out", partition_by="day"), name="late")(lambda flights: flights)
"""


def test_borders() -> None:
    """A border is a word, an offset, the last N, offsets by partition, a time, or a duration before now."""
    assert border("--from", "earliest") == EARLIEST
    assert border("--to", "latest") == LATEST
    assert border("--from", "12") == Border(offset=Offset(12))
    assert border("--from", "-3") == Border(offset=Offset(-3))
    partition = TopicPartition("flights", PartitionIndex(1))
    assert border("--from", '{"flights": {"1": -2}}') == Border(offsets={partition: Offset(-2)})
    assert border("--from", "1970-01-01T00:01:00+00:00") == Border(timestamp_ms=Millis(60_000))
    earlier, later = border("--from", "2h").timestamp_ms, border("--from", "1h").timestamp_ms
    assert earlier is not None
    assert later is not None
    assert later - earlier >= 3_600_000


@pytest.mark.parametrize("text", ["yesterday", "", "{", '{"flights": {"x": 1}}', '{"flights": {"0": -3}}'])
def test_wrong_borders(text: str) -> None:
    """A border that is none of these is a wrong use, which names the option."""
    with pytest.raises(UsageError, match="--to"):
        border("--to", text)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            "--into parquet:again --append",
            "--append is for topics, and --into parquet:again writes to a folder that is new or empty: omit --append",
        ),
        ("--into live --append", "--append is for topics, and --into live replaces whole partitions: omit --append"),
        (
            "--into json:again --force",
            "--force is for --into live, and --into json:again replaces nothing: omit --force",
        ),
        ("--into topic:again --force", "omit --force, or use --append for a topic that has records"),
    ],
)
def test_options_for_other_targets(words: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that would be ignored is a wrong use, before the file is loaded; the error says what to do."""
    assert main(["pipeline", "backfill", "missing.py", "--from", "2h", *words.split()]) == WRONG_USE

    assert advice in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--into topic:again --append", "--into live --force", "--into json:again"])
def test_options_for_this_target(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The options are taken, so the error is that there is no file."""
    assert main(["pipeline", "backfill", "missing.py", "--from", "2h", *words.split()]) == FAILED

    assert "missing.py" in capsys.readouterr().err


def test_a_folder_that_can_not_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checkpoints that can't be read, as in an object store that is away, are an error of one line."""
    file = tmp_path / "counting.py"
    file.write_text(_FILE, encoding="utf-8")
    (tmp_path / "checkpoints").write_text("no folder")

    words = [str(file), "-b", "127.0.0.1:1", "--checkpoints", str(tmp_path / "checkpoints")]
    assert main(["pipeline", "backfill", *words, "--from", "2h", "--into", "live"]) == FAILED

    assert "the folders of flow late and of its backfills can't be read" in capsys.readouterr().err
