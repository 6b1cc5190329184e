"""Which record loops a process uses: the compiled ones or those in Python."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.scanner_loops import compiled_loops


def _is_compiled(**environment: str) -> str:
    command = [sys.executable, "-c", "from klamm.protocol import record_scanner as s; print(s.IS_COMPILED)"]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_python_can_be_asked_for() -> None:
    """`KLAMM_PURE_PYTHON=1` selects the loops in Python, even if compiled ones are installed."""
    assert _is_compiled(KLAMM_PURE_PYTHON="1") == "False"


def test_compiled_loops_are_taken_where_they_are() -> None:
    """Installed compiled loops are used by default."""
    compiled_loops()
    assert _is_compiled(KLAMM_PURE_PYTHON="") == "True"
