"""Tests that the driver reads exactly what a task staged, from a message and from a file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.spark.sink.errors import StagedFileMissing, WriteFailed
from klamm.spark.sink.staged_batches import StagedBatch, StagedTask
from klamm.spark.sink.staging import Staging, TaskAttempt, TaskStage

BATCHES = [
    StagedBatch("flights", 0, b"a" * 10),
    StagedBatch("fl\u00fcge", 7, b""),
    StagedBatch("flights", 1, b"b" * 90),
]


def staged(
    folder: Path, batches: list[StagedBatch], inline_bytes: int, batch_id: int = 3, partition: int = 2
) -> StagedTask:
    """Stages the batches as one task."""
    stage = TaskStage(str(folder), TaskAttempt("query", batch_id, "run", partition, 1), inline_bytes)
    for batch in batches:
        stage.add(*batch)
    return stage.finish()


def files_in(folder: Path) -> list[str]:
    """Returns the names of the files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@given(st.lists(st.builds(StagedBatch, st.text(max_size=20), st.integers(0, 2**31 - 1), st.binary(max_size=50))))
def test_a_small_task_creates_no_file(batches: list[StagedBatch]) -> None:
    """A small task creates no file; the message holds its batches in order."""
    task = staged(Path("/nowhere"), batches, 1 << 20)

    assert task.file is None
    assert list(Staging("/nowhere").batches(task)) == batches


@pytest.mark.parametrize("inline_bytes", [0, 40, 100])
def test_a_large_task_moves_all_its_batches_to_a_file(tmp_path: Path, inline_bytes: int) -> None:
    """A large task moves all its batches to one file, in folders that name the query, the micro-batch and the run."""
    task = staged(tmp_path, BATCHES, inline_bytes)

    assert task.inline == b""
    assert files_in(tmp_path) == [task.file]
    assert (task.file or "").startswith("query/3/run/2-1-")
    assert list(Staging(str(tmp_path)).batches(task)) == BATCHES


@pytest.mark.parametrize(
    ("partition", "size_bytes", "has_file"),
    [(0, 60 << 20, False), (0, 65 << 20, True), (63, 1_000_000, False), (199, 300_000, False), (199, 400_000, True)],
)
def test_tasks_with_high_numbers_pass_less_in_their_messages(
    tmp_path: Path, partition: int, size_bytes: int, has_file: bool
) -> None:
    """The higher the number of a task, the less it passes in its message, whatever the option says."""
    batches = [StagedBatch("flights", 0, bytes(size_bytes))]

    task = staged(tmp_path, batches, 1 << 30, partition=partition)

    assert (task.file is not None) == has_file
    assert list(Staging(str(tmp_path)).batches(task)) == batches


def test_the_messages_of_many_tasks_fit_into_sparks_default_limit() -> None:
    """The messages of 100,000 tasks stay below the default of `spark.driver.maxResultSize`, 1 GiB, whatever the option
    says. The rest is for what Spark adds to each message."""
    attempts = (TaskAttempt("query", 3, "run", partition, 0) for partition in range(100_000))

    assert sum(attempt.most_inline_bytes for attempt in attempts) < 800 << 20


def test_attempts_share_no_file(tmp_path: Path) -> None:
    """Two attempts never share a file, even if Spark gives them the same number."""
    assert staged(tmp_path, BATCHES, 0).file != staged(tmp_path, BATCHES, 0).file


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    """A task that fails removes its own file."""
    stage = TaskStage(str(tmp_path), TaskAttempt("query", 3, "run", 2, 1), 0)
    stage.add(*BATCHES[0])
    assert files_in(tmp_path) != []
    stage.discard()
    assert files_in(tmp_path) == []


def test_the_commit_removes_earlier_micro_batches(tmp_path: Path) -> None:
    """A commit removes the files of its micro-batch and all earlier ones, but no file of a later micro-batch or
    another query."""
    for batch_id in (2, 3, 10):
        staged(tmp_path, BATCHES, 0, batch_id)
    other = TaskStage(str(tmp_path), TaskAttempt("other", 1, "run", 0, 0), 0)
    other.add(*BATCHES[0])
    other.finish()

    Staging(str(tmp_path)).remove_up_to("query", 3)

    assert [name.split("/")[:2] for name in files_in(tmp_path)] == [["other", "1"], ["query", "10"]]


def test_a_missing_file_says_who_must_see_it(tmp_path: Path) -> None:
    """If the staged file is missing, the error says that the driver and all executors must see the same folder."""
    task = staged(tmp_path, BATCHES, 0)
    with pytest.raises(StagedFileMissing, match="the driver and all executors must see the same folder"):
        list(Staging(str(tmp_path / "elsewhere")).batches(task))


@pytest.mark.parametrize(("more", "message"), [(1, "end within batch 3"), (-1, "more than 2 batches")])
def test_lost_batches_are_noticed(tmp_path: Path, more: int, message: str) -> None:
    """A truncated file or a wrong number of batches is an error, because records would be lost."""
    task = staged(tmp_path, BATCHES, 0)
    damaged = dataclasses.replace(task, batches_count=task.batches_count + more)
    with pytest.raises(WriteFailed, match=message):
        list(Staging(str(tmp_path)).batches(damaged))
