"""Tests what `klamm produce` refuses before it connects."""

from __future__ import annotations

import argparse
import sys

import pytest

from klamm.cli.errors import UsageError
from klamm.cli.records.produce import run


def test_a_closed_standard_input_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs that start others close it; Python has no stream then."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="name a file"):
        run(argparse.Namespace(file=None))
