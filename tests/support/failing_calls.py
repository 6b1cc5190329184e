"""Makes calls of the operating system fail, as on a full or a broken disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["failing"]


@contextmanager
def failing(
    name: str, error: int, *, after_bytes: int = 0, times: int = 10**6, only_to_make: bool = True
) -> Iterator[None]:
    """Makes the next `times` calls of `os.<name>` fail with `error`.

    A write first writes `after_bytes` bytes. Opening an existing file succeeds, unless `only_to_make` is False.
    """
    real = getattr(os, name)
    left = times

    def fail(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left == 0 or (name == "open" and only_to_make and not arguments[1] & os.O_CREAT):
            return real(*arguments, **options)
        left -= 1
        if after_bytes:
            descriptor, buffers, position = arguments
            os.pwrite(descriptor, b"".join(buffers)[:after_bytes], position)
        raise OSError(error, os.strerror(error))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, fail)
        yield
