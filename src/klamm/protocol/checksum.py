"""CRC-32C from the C extension of the package `crc32c`.

The import of the package itself looks up its version and defines a command line. So it imports argparse, email and
zipfile, which takes a tenth of a broker's start time. The extension alone needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, TypeAlias

__all__ = ["crc32c"]

_Checksum: TypeAlias = Callable[[bytes | bytearray | memoryview, int], int]


def _load_extension() -> _Checksum | None:
    package = PathFinder.find_spec("crc32c")
    extension = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if extension is None or extension.loader is None:
        return None
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    checksum: _Checksum | None = getattr(module, "crc32c", None)
    return checksum


def _load_package() -> _Checksum:
    from crc32c import crc32c as checksum

    return checksum


crc32c: Final[_Checksum] = _load_extension() or _load_package()
"""(data, CRC of the preceding data, or 0) → CRC."""
