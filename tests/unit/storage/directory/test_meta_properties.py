"""Tests meta.properties, which says to which cluster and node a data directory belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.storage.directory.meta_properties import InconsistentDataDirectory, MetaProperties


def _ensure(directory: Path, cluster_id: str = "c1", node_id: int = 1) -> MetaProperties:
    return MetaProperties.ensure(MetaProperties.read(directory), directory, cluster_id=cluster_id, node_id=node_id)


def test_a_new_directory_gets_an_id_that_it_keeps(tmp_path: Path) -> None:
    """KIP-858: a new directory gets an id and keeps it, so that a replaced disk is recognized."""
    first = _ensure(tmp_path)
    assert first.directory_id is not None
    assert len(first.directory_id) == 22
    assert _ensure(tmp_path) == first == MetaProperties.read(tmp_path)


def test_the_file_is_javas(tmp_path: Path) -> None:
    """A file with comments and spaces, as Java writes it and klamm does not, is read."""
    (tmp_path / "meta.properties").write_text(
        "#\n#Fri Nov 20 04:48:30 UTC 2026\ncluster.id=a-B_c\nversion = 1\ndirectory.id=xyz\nnode.id=3\n"
    )
    assert MetaProperties.read(tmp_path) == ("a-B_c", 3, "xyz", None, None, None)


def test_the_shared_store_is_recorded_and_kept(tmp_path: Path) -> None:
    """The metadata store that brokers share stays recorded when a run of the broker is recorded."""
    known = _ensure(tmp_path)._replace(store=("f39c", "klamm/a", 17), store_commit=(16, "0a1b", "topics/a b"))
    known.write(tmp_path)
    assert MetaProperties.read(tmp_path) == known
    recorded = MetaProperties.ensure(known, tmp_path, cluster_id="c1", node_id=1, incarnation="one")
    assert MetaProperties.read(tmp_path) == recorded == known._replace(incarnation="one")


def test_the_latest_run_is_recorded_and_kept(tmp_path: Path) -> None:
    """The folder's id stays when a run of the broker is recorded, and the run stays until the next one."""
    first = _ensure(tmp_path)
    for run in ("one", "two"):
        recorded = MetaProperties.ensure(
            MetaProperties.read(tmp_path), tmp_path, cluster_id="c1", node_id=1, incarnation=run
        )
        assert recorded == _ensure(tmp_path) == first._replace(incarnation=run)


def test_a_file_without_directory_id_gets_one(tmp_path: Path) -> None:
    """A file without a directory id, as Kafka before 3.7 wrote it, gets one."""
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c1\nnode.id=1\n")
    assert _ensure(tmp_path).directory_id is not None


@pytest.mark.parametrize(("cluster_id", "node_id"), [("c2", 1), ("c1", 2)])
def test_another_cluster_or_node_is_refused(tmp_path: Path, cluster_id: str, node_id: int) -> None:
    """A directory of another cluster or node is refused, and the error says which it is and what to do."""
    _ensure(tmp_path)
    with pytest.raises(InconsistentDataDirectory, match=r"belongs to the .*--data-dir"):
        _ensure(tmp_path, cluster_id, node_id)


@pytest.mark.parametrize(
    "content",
    ["", "version=0\ncluster.id=c\nbroker.id=1\n", "version=1\n", "version=1\ncluster.id=c\nnode.id=x\n"],
)
def test_what_can_not_be_understood_is_refused(tmp_path: Path, content: str) -> None:
    """A malformed file is refused, so that a broker does not take another broker's data."""
    (tmp_path / "meta.properties").write_text(content)
    with pytest.raises(InconsistentDataDirectory):
        MetaProperties.read(tmp_path)
