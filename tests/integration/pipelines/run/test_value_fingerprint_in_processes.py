"""Tests that a fingerprint is that of the value, and not of the process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from klamm.pipelines.run.value_fingerprint import value_fingerprint

class Codes:
    def __init__(self):
        self.codes = {"JFK", "LAX", "BOS", "SEA"}

def check(frame, codes):
    return frame in {"ATL", "DEN", "ORD"} or frame in codes.codes

def outer(codes):
    return lambda frame: check(frame, codes)

print(value_fingerprint(outer(Codes())))
"""


def test_a_fingerprint_is_equal_in_another_process() -> None:
    """Hashes of texts and memory addresses, which differ between processes, do not count."""

    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run("1") == run("2") != ""
