"""Tests which transaction of a store a data directory remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.broker.services.cluster.directory_of_cluster import known_store, record_store
from klamm.metadata.etcd.etcd_history import latest_of
from klamm.metadata.metadata_store import Commit, Versioned
from klamm.metadata.store_identity import StoreIdentity
from klamm.storage.directory.meta_properties import MetaProperties


def test_the_entry_that_was_written_last() -> None:
    """A commit may stand for several transactions. One that only removes keys has no such entry."""
    entries = {"brokers/1": Versioned(b"1", 3, 7), "topics/a": Versioned(b"2", 5, 6), "live/2": None}
    latest = latest_of(Commit(9, entries))
    assert latest is not None
    assert (latest.revision, latest.key) == (7, "brokers/1")
    assert latest_of(Commit(9, {"live/2": None})) is None


@pytest.mark.parametrize("group", ["\u7d44", "a\ncluster.id=other", "a "])
def test_names_that_clients_choose_are_not_remembered(tmp_path: Path, group: str) -> None:
    """After a cut, the difference to the present content may have the settings of a group as its latest entry. The data
    directory remembers another one, and reads it back as it was."""
    settings = Versioned(b"{}", 8, 8)
    latest = latest_of(Commit(9, {f"configs/32/{group}": settings, "topics/a": Versioned(b"2", 5, 6)}))
    assert latest is not None
    assert latest.key == "topics/a"
    assert latest_of(Commit(9, {f"configs/32/{group}": settings})) is None
    MetaProperties("cluster", 1, "directory").write(tmp_path)
    store = StoreIdentity("f39c", "klamm", 9, latest)
    record_store(tmp_path, store)
    assert known_store(tmp_path) == store
