"""`klamm pipeline test`: runs the tests of a pipeline with pytest and klamm's fixtures."""

from __future__ import annotations

import argparse
from pathlib import Path

from klamm.errors import KlammError
from klamm.pipelines.errors import PipelineError

__all__ = ["run", "test_files"]


def run(arguments: argparse.Namespace) -> int:
    """Runs pytest; returns its exit status. Raises KlammError if there is no pytest or no file."""
    file = Path(arguments.file)
    if not file.is_file():
        raise PipelineError(f"there is no file {file}")
    try:
        import pytest
    except ImportError:
        raise KlammError("klamm pipeline test needs pytest. Run: pip install pytest") from None
    return int(pytest.main([*map(str, test_files(file)), *arguments.pytest_arguments]))


def test_files(file: Path) -> list[Path]:
    """Returns the file itself, and the files with its tests: next to it, or in the folder `tests` there."""
    folders = (file.parent, file.parent / "tests")
    named = (folder / name for folder in folders for name in (f"test_{file.name}", f"{file.stem}_test.py"))
    return [file, *(each for each in named if each.is_file())]
