"""The disks of several machines: each call goes to the disk that has the file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.simulation.logs.device import Device

__all__ = ["attached", "copy_folder"]

_OF_PATHS = ("open", "truncate", "rename", "replace", "unlink", "mkdir")
_OF_DESCRIPTORS = ("write", "pwrite", "pwritev", "pread", "fsync", "fdatasync", "ftruncate", "posix_fadvise")


@contextmanager
def attached(devices: Sequence[Device]) -> Iterator[None]:
    """Leads all calls through the devices while the context is open."""
    calls = [device.replacements() for device in devices]
    real = {name: getattr(os, name) for name in calls[0]}
    for device in devices:
        device.use(real)

    def of_path(name: str) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            for device, own in zip(devices, calls, strict=True):
                if device.is_mine(path):
                    return own[name](path, *arguments, **options)
            return real[name](path, *arguments, **options)

        return call

    def of_descriptor(name: str) -> Any:
        def call(descriptor: int, *arguments: Any) -> Any:
            inode = os.fstat(descriptor).st_ino
            for device, own in zip(devices, calls, strict=True):
                if device.knows(inode):
                    return own[name](descriptor, *arguments)
            return real[name](descriptor, *arguments)

        return call

    replacements = {name: of_path(name) for name in _OF_PATHS} | {name: of_descriptor(name) for name in _OF_DESCRIPTORS}
    replacements |= {name: calls[0][name] for name in ("listdir", "scandir")}
    with patch.multiple(os, **replacements):
        yield


def copy_folder(name: str, source: Device, sink: Device) -> None:
    """Copies a folder to another disk, which has it synced at once. The source may belong to a machine that is off."""
    target = sink.path / name
    if target.exists():
        sink.drop(str(target))
    with source.passing(), sink.passing():
        if source.image is None:
            shutil.copytree(source.path / name, target)
        else:
            target.mkdir()
            for path, content in sorted(source.image.items()):
                if path.startswith(f"{name}/") and content is not None:
                    (sink.path / path).write_bytes(content)
        sink.adopt(str(target))
