"""Both forms of the record scanner's loops, for tests that hold them against each other."""

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
"""The forms that are there: Python's first."""


def compiled_loops() -> ModuleType:
    """The compiled form; skips where it is not, or fails where REQUIRE_TOOLCHAINS says that it has to be."""
    if _COMPILED is None:
        message = (
            "the record scanner's compiled module is missing, or older than its source: "
            "with a C compiler, `make install` builds it"
        )
        toolchain_is_missing("compiler", message)
    return _COMPILED


each_loops = pytest.mark.parametrize("loops", LOOPS, ids=[module.__name__.rpartition(".")[2] for module in LOOPS])
