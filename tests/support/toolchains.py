"""What a test needs besides Python, where it is missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["toolchain_is_missing"]


def toolchain_is_missing(toolchain: str, message: str) -> NoReturn:
    """Skips the test, or fails it where REQUIRE_TOOLCHAINS says that the toolchain is there."""
    if toolchain in os.environ.get("REQUIRE_TOOLCHAINS", "").split():
        pytest.fail(f"{toolchain} is required here: {message}")
    pytest.skip(message)
