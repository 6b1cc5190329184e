"""Skips or fails a test if a tool that the test needs is missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["toolchain_is_missing"]


def toolchain_is_missing(toolchain: str, message: str) -> NoReturn:
    """Skips the test, or fails the test if REQUIRE_TOOLCHAINS names the toolchain."""
    if toolchain in os.environ.get("REQUIRE_TOOLCHAINS", "").split():
        pytest.fail(f"{toolchain} is required here: {message}")
    pytest.skip(message)
