"""A short run of the fuzzer on all readers of bytes from outside; `make fuzz` runs longer."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.guard import Target, TooMuchMemory
from tests.fuzz.mutations import near
from tests.fuzz.targets import TARGETS, check_any

EXAMPLES = int(os.environ.get("KLAMM_FUZZ_EXAMPLES", "40"))
REGRESSIONS = Path(__file__).with_name("regressions")

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@pytest.fixture(autouse=True)
def _stop_tracing() -> Iterator[None]:
    yield
    tracemalloc.stop()


@cache
def seeds(target: Target) -> list[bytes]:
    """Returns the target's seeds; reads each seed once, so that codecs are compiled before memory is measured."""
    found = list(target.seeds())
    for seed in found:
        target.read(seed)
    return found


@each_target
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_bytes_raise_declared_errors_only(target: Target, data: st.DataObject) -> None:
    """Changed bytes raise only declared errors, and use no more memory than their size allows."""
    target.check(data.draw(near(seeds(target))))


@each_target
def test_what_was_found_once_is_not_found_again(target: Target) -> None:
    """The seeds and all inputs that failed in the past pass the check."""
    for seed in seeds(target):
        target.check(seed)
    for path in sorted((REGRESSIONS / target.name).glob("*")):
        target.check(path.read_bytes())


def test_the_guard_finds_what_it_is_for() -> None:
    """The guard finds an undeclared error, and a small input that uses too much memory."""

    def careless(data: bytes) -> None:
        bytearray(data[0] << 16)

    target = Target("careless", careless, lambda: [b"\x00"], 1 << 20, 100)
    target.check(b"\x01")
    with pytest.raises(IndexError):
        target.check(b"")
    with pytest.raises(TooMuchMemory):
        target.check(b"\xff")


def test_the_first_byte_chooses_the_target() -> None:
    """The first byte of an input selects the target, so that one run covers all targets."""
    for number, target in enumerate(TARGETS.values()):
        check_any(bytes((number,)) + seeds(target)[0])
    check_any(b"")


@pytest.mark.timeout(600)
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """Atheris finds no failure in some hundred inputs for all targets."""
    pytest.importorskip("atheris", reason="atheris is there for Linux on x86-64 and Python 3.11 to 3.13 only")
    command = [sys.executable, "-m", "tests.fuzz", "any", "--runs", "900", "--folder", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=540)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-6000:]
    assert "nothing found in any" in ran.stdout
