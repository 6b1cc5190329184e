"""Tests which versions of etcd are safe."""

from __future__ import annotations

import pytest

from klamm.metadata.etcd.etcd_warnings import is_safe


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.3.27", False),
        ("3.4.23", False),
        ("3.4.36", True),
        ("3.5.17", False),
        ("3.5.18", True),
        ("3.6.0", True),
        ("3.10.1", True),
        ("4.0.0-rc.1", True),
        ("a version of a fork", True),
    ],
)
def test_versions(version: str, expected: bool) -> None:
    """Watches miss deletions next to a compaction before 3.4.36 and 3.5.18."""
    assert is_safe(version) == expected
