"""The Python form and the compiled form of the record scanner's loops, for tests that compare them."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.support.toolchains import toolchain_is_missing

from klamm.protocol import _record_scanner_py

__all__ = ["LOOPS", "compiled_loops", "each_loops"]


def _load_compiled() -> ModuleType | None:
    try:
        from klamm.protocol import _record_scanner
        from klamm.protocol._record_scanner import RowEncoder as _built_from_this_source  # noqa: F401
    except ImportError:
        return None
    return _record_scanner


_COMPILED = _load_compiled()
LOOPS: list[ModuleType] = [_record_scanner_py, *([_COMPILED] if _COMPILED is not None else [])]
"""The available forms, the Python form first."""


def compiled_loops() -> ModuleType:
    """Returns the compiled form. If it is missing, skips the test, or fails it if REQUIRE_TOOLCHAINS requires it."""
    if _COMPILED is None:
        message = (
            "the record scanner's compiled module is missing, or older than its source: "
            "with a C compiler, `make install` builds it"
        )
        toolchain_is_missing("compiler", message)
    return _COMPILED


each_loops = pytest.mark.parametrize("loops", LOOPS, ids=[module.__name__.rpartition(".")[2] for module in LOOPS])
