"""Sets the number of examples of property tests: `make unit` tries fewer, so that it ends within a minute.

Tests without their own number try `examples(100)` (tests/conftest.py).
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["examples"]

_DIVISOR: Final = int(os.environ.get("TEST_EXAMPLES_DIVISOR", "1"))


def examples(count: int, *, least: int = 5) -> int:
    """Returns the number of examples to try: `count`, or a part of it if TEST_EXAMPLES_DIVISOR is set."""
    return max(least, count // _DIVISOR)
