"""A disk whose syncs a test can hold back."""

from __future__ import annotations

import os
import threading

__all__ = ["SlowDisk"]

_fdatasync = os.fdatasync


class SlowDisk:
    """A disk whose syncs a test can hold back."""

    def __init__(self) -> None:
        self.may_pass = threading.Event()
        self.may_pass.set()

    def fdatasync(self, descriptor: int) -> None:
        if not self.may_pass.wait(60):
            raise TimeoutError("the test never let the disk go on")
        _fdatasync(descriptor)
