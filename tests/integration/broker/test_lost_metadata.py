"""A broker does not make an empty cluster of a data directory whose metadata is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.metadata.offline import create_store
from klamm.storage.directory.lost_metadata import MetadataLost
from klamm.testing import Broker


def _remove(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _make_anew(path: Path) -> None:
    path.unlink()
    create_store(path, [])


def _names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Creates a data directory with a topic and a record."""
    directory = tmp_path / "data"
    with Broker(directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"value", partition=0)
        assert not producer.flush()
    return directory


@pytest.mark.parametrize("lose", [_remove, _empty, _make_anew])
def test_a_broker_refuses_to_start_without_the_metadata(directory: Path, lose: Callable[[Path], None]) -> None:
    """A broker refuses to start if the metadata file is missing, empty, or an empty store. It changes no file, so that
    a copy of the metadata restores the cluster."""
    path = directory / "metadata.sqlite"
    copy = directory.parent / "copy.sqlite"
    shutil.copy(path, copy)
    lose(path)
    before = _names(directory)
    with pytest.raises(MetadataLost) as refused, Broker(directory):
        pass
    for part in (str(path), "Bring metadata.sqlite back from a copy", "remove meta.properties"):
        assert part in str(refused.value)
    assert _names(directory) == before
    shutil.copy(copy, path)
    with Broker(directory) as broker:
        (topic,) = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("orders").topics.values()
        assert topic.error is None


def test_who_gives_the_metadata_up_keeps_the_partitions_aside(directory: Path) -> None:
    """If the user removes meta.properties, as the refusal suggests, a new cluster begins and the old partitions are
    kept in stray folders."""
    (directory / "metadata.sqlite").unlink()
    (directory / "meta.properties").unlink()
    with Broker(directory):
        strays = [path for path in directory.iterdir() if path.name.endswith("-stray")]
    assert any(segment.stat().st_size for path in strays for segment in path.glob("*.log"))


def test_a_directory_without_partitions_has_nothing_to_lose(tmp_path: Path) -> None:
    """A broker without metadata and without partitions starts and keeps its cluster id."""
    with Broker(tmp_path):
        before = (tmp_path / "meta.properties").read_text()
    (tmp_path / "metadata.sqlite").unlink()
    for path in tmp_path.glob("*-?"):
        shutil.rmtree(path)
    with Broker(tmp_path):
        assert (tmp_path / "meta.properties").read_text() == before
