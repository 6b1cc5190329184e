"""Error output of a Spark planning process after Spark has closed its connection."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("pyspark")

PROGRAM = """
    import sys
    import traceback
    from importlib.machinery import ModuleSpec

    sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)

    import klamm.spark.data_source

    for error in (BrokenPipeError("hung up"), ValueError("of the user's own")):
        try:
            raise error
        except Exception:
            traceback.print_exc()
"""


@pytest.mark.parametrize(
    ("program", "printed"), [("pyspark.daemon", ["ValueError"]), ("another.program", ["BrokenPipeError", "ValueError"])]
)
def test_the_data_source_keeps_its_process_from_printing_a_broken_pipe(program: str, printed: list[str]) -> None:
    """In Spark's own daemon a BrokenPipeError is not printed; other errors are printed, and other programs are not
    changed."""
    words = [sys.executable, "-c", dedent(PROGRAM), program]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [line.partition(":")[0] for line in ran.stderr.splitlines() if "Error: " in line] == printed
