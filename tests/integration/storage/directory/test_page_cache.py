"""Tests that Linux tells a mount from a later one at the same place, in namespaces of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from klamm.core.replication.run_mark import PageCache, is_same_cache
from klamm.storage.directory.page_cache import identify_page_cache

_IDENTIFY = """
import sys
from pathlib import Path
from klamm.storage.directory.page_cache import identify_page_cache
print(tuple(identify_page_cache(Path(sys.argv[1]))))
"""


def _in_namespace(script: str, folder: Path) -> list[PageCache]:
    """Runs a shell script as root of a new namespace. It has `identify`, which prints the page cache of the folder."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces need `unshare`, and the right to use it")
    script = f'identify() {{ "{sys.executable}" -c "{_IDENTIFY}" "$1"; }}; set -e; {script}'
    command = [unshare, "-rm", "sh", "-c", script, "sh", str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [PageCache(*literal_eval(line)) for line in output.splitlines()]


def test_later_mount_is_another_page_cache(tmp_path: Path) -> None:
    """A file system that is mounted again has lost its pages, although its device, and the folder, have the same
    numbers."""
    mount = 'mount -t tmpfs none "$1"; identify "$1"; umount "$1"; '
    first, second = _in_namespace(mount * 2, tmp_path)
    if first.mount < 2**31:
        pytest.skip("before Linux 6.8 a later mount may get the same number")
    assert first[:4] == second[:4]  # the device, the folder and the namespace
    assert not is_same_cache(first, second)


def test_another_namespace_has_the_page_cache_of_the_disk(tmp_path: Path) -> None:
    """A service manager may give each run of the broker a namespace, whose own number may be that of an earlier one.
    The disk tells that the page cache is the same."""
    here = identify_page_cache(tmp_path)
    assert here is not None
    (first,), (second,) = (_in_namespace('identify "$1"', tmp_path) for _ in range(2))
    if first.mount < 2**31:
        pytest.skip("before Linux 6.8 a later namespace may have the same numbers")
    assert len({here.root, first.root, second.root}) == 3
    for before, now in ((here, first), (first, second)):
        assert is_same_cache(before, now) is (here.disk is not None)
