"""Tests which files are removed from a checkpoint before a query starts."""

from __future__ import annotations

from pathlib import Path

from klamm.pipelines.run.unfinished_files import remove_unfinished_files


def test_only_a_checkpoint_without_a_micro_batch_is_cleaned(tmp_path: Path) -> None:
    """Temporary files go if no micro-batch is planned. Later Spark ignores them, and they stay."""
    remove_unfinished_files(str(tmp_path))
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for name in (".0.a.tmp", "..0.a.tmp.crc"):
        (offsets / name).touch()

    remove_unfinished_files(str(tmp_path))
    assert list(offsets.iterdir()) == []

    for name in ("0", ".1.a.tmp"):
        (offsets / name).touch()
    remove_unfinished_files(str(tmp_path))
    assert len(list(offsets.iterdir())) == 2
