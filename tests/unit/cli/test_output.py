"""Tests the console on standard output."""

from __future__ import annotations

import io
import sys

import pytest

from klamm.cli.output import new_console


class _ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_ended_raises_as_print_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`main` ends with status 0 then; the console of rich would end the process with status 1."""
    monkeypatch.setattr(sys, "stdout", _ClosedPipe())
    with pytest.raises(BrokenPipeError):
        new_console().print("rows")
