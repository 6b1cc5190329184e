"""Tests after which runs a data directory holds every acknowledged record."""

from __future__ import annotations

import pytest

from klamm.core.replication.run_mark import PageCache, RunMark, is_same_cache, kept_runs

CACHE = PageCache("boot", device=1, folder=2, root=3, mount=4, disk=5)
MARK = RunMark("second", "first", CACHE)


def test_killed_run_has_kept_everything() -> None:
    """Written pages survive the process. The directory also holds the records of the run before, for the case that the
    second run has not registered before it was killed."""
    assert kept_runs(MARK, CACHE, None) == {"first", "second"}
    assert kept_runs(MARK._replace(kept=""), CACHE, None) == {"second"}


@pytest.mark.parametrize(
    "change", [{"boot_id": "another"}, {"device": 9}, {"folder": 9}, {"mount": 9}, {"root": 9, "disk": 9}]
)
def test_another_page_cache_may_lack_pages(change: dict[str, object]) -> None:
    """The machine was restarted, the directory is a copy, or its disk was attached again: pages may be lost."""
    assert kept_runs(MARK, CACHE._replace(**change), None) == frozenset()  # type: ignore[arg-type]


@pytest.mark.parametrize(("disk", "is_same"), [(5, True), (6, False), (None, False)])
def test_disk_decides_in_another_mount_namespace(disk: int | None, is_same: bool) -> None:
    """A service with a `/tmp` of its own gets a new namespace at each start, in which the same mount has another
    number."""
    now = CACHE._replace(root=30, mount=40, disk=disk)
    assert is_same_cache(CACHE, now) is is_same


def test_unknown_disk_is_never_the_same_one() -> None:
    """Without a block device, two namespaces can't be compared."""
    assert not is_same_cache(CACHE._replace(disk=None), CACHE._replace(root=30, disk=None))


@pytest.mark.parametrize(
    ("mark", "now"),
    [(None, CACHE), (MARK._replace(cache=None), CACHE), (MARK, None), (MARK._replace(cache=None), None)],
)
def test_unknown_page_cache_proves_nothing(mark: RunMark | None, now: PageCache | None) -> None:
    """On another system than Linux, and without `/proc`, only a clean stop counts."""
    assert kept_runs(mark, now, None) == frozenset()


def test_clean_stop_needs_no_page_cache() -> None:
    """Everything is on the disk. A run that was started and stopped without a registration changes nothing."""
    assert kept_runs(None, None, "second") == {"second"}
    assert kept_runs(MARK, CACHE._replace(boot_id="another"), "second") == {"first", "second"}
