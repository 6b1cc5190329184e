"""`klamm log export-kafka` and `klamm log import-kafka`, in both directions; tests/interop tests Apache Kafka
itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.integration.cli.log.data_directory import closed_directory, directory, lines

from klamm.cli.main import main
from klamm.metadata.image import MetadataImage
from klamm.metadata.offline import read_image
from klamm.storage.directory.file_lock import FileLock
from klamm.testing import Broker

__all__ = ["closed_directory", "directory"]


def _agreed(image: MetadataImage) -> tuple[object, ...]:
    """Returns the metadata that must survive an export to Kafka and the import back."""
    return image.cluster_id, image.topics, image.configs, image.next_producer_id


def test_there_and_back_keeps_everything(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import keep topics, configs and ids. An exported directory is not served by klamm until it is
    imported."""
    before = _agreed(read_image(directory / "metadata.sqlite"))
    assert main(["log", "export-kafka", str(directory), "--controller", "localhost:19093"]) == 0
    shown = capsys.readouterr().out
    assert f"log.dirs={directory}" in shown
    assert "controller.quorum.bootstrap.servers=localhost:19093" in shown
    assert not (directory / "metadata.sqlite").exists()
    assert main(["serve", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]) == 1
    assert "klamm log import-kafka" in capsys.readouterr().err
    records = [
        row["name"]
        for row in lines(capsys, "log", "dump", "--records", str(directory / "bootstrap.checkpoint"))
        if row["type"] == "record"
    ]
    assert records.count("TopicRecord") == 2
    assert (records[0], records[1], records[-1]) == (
        "SnapshotHeaderRecord",
        "FeatureLevelRecord",
        "SnapshotFooterRecord",
    )
    assert main(["log", "import-kafka", str(directory)]) == 0
    assert "klamm serve --data-dir" in capsys.readouterr().out
    assert _agreed(read_image(directory / "metadata.sqlite")) == before
    with Broker(data_dir=directory):
        pass
    assert main(["log", "export-kafka", str(directory)]) == 0
    assert main(["log", "import-kafka", str(directory)]) == 0
    assert sorted(path.name for path in directory.glob("*.imported*")) == [
        "__cluster_metadata-0.imported",
        "__cluster_metadata-0.imported.2",
        "bootstrap.checkpoint.imported",
        "bootstrap.checkpoint.imported.2",
    ]


def test_a_dry_run_changes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run shows the result and changes no file, in both directions."""
    before = sorted(path.name for path in directory.iterdir())
    assert main(["log", "export-kafka", str(directory), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"{directory} can be handed over: " in said
    assert "nothing was changed" in said
    assert sorted(path.name for path in directory.iterdir()) == before
    assert main(["log", "export-kafka", str(directory)]) == 0
    before = sorted(path.name for path in directory.iterdir())
    assert main(["log", "import-kafka", str(directory), "--dry-run"]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert sorted(path.name for path in directory.iterdir()) == before


@pytest.mark.parametrize("verb", ["export-kafka", "import-kafka"])
def test_only_a_directory_at_rest_changes_hands(directory: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import refuse a directory with a running broker, and one after a crash: only the software that wrote
    it can recover it."""
    if verb == "import-kafka":
        assert main(["log", "export-kafka", str(directory)]) == 0
    before = sorted(path.name for path in directory.iterdir())
    lock = FileLock(directory)
    assert main(["log", verb, str(directory)]) == 1
    assert "in use" in capsys.readouterr().err
    lock.release()
    (directory / ".kafka_cleanshutdown").unlink()
    assert main(["log", verb, str(directory)]) == 1
    assert "not a clean one" in capsys.readouterr().err
    assert sorted([*(path.name for path in directory.iterdir()), ".kafka_cleanshutdown"]) == before


def test_missing_partitions_are_missed(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import refuse a directory in which the folder of a partition is missing."""
    folder = directory / "orders-1"
    folder.rename(directory / "elsewhere")
    assert main(["log", "export-kafka", str(directory)]) == 1
    assert "orders-1" in capsys.readouterr().err
    (directory / "elsewhere").rename(folder)
    assert main(["log", "export-kafka", str(directory)]) == 0
    folder.rename(directory / "elsewhere")
    assert main(["log", "import-kafka", str(directory)]) == 1
    assert "orders-1 has no folder" in capsys.readouterr().err
    assert not (directory / "metadata.sqlite").exists()


def test_other_directories_are_refused(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import refuse directories of the wrong kind and leave no lock file there."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["log", "import-kafka", str(directory)]) == 1
    assert "has klamm's metadata already" in capsys.readouterr().err
    for verb in ("import-kafka", "export-kafka"):
        assert main(["log", verb, str(empty)]) == 1
        assert "is no data directory of" in capsys.readouterr().err
    assert not list(empty.iterdir())


_OF_KAFKA = ("__cluster_metadata-0", "bootstrap.checkpoint")


def _break_off_the_import(directory: Path) -> None:
    """Leaves the directory as an import does that is killed before it has put Kafka's metadata aside."""
    assert main(["log", "import-kafka", str(directory)]) == 0
    for name in _OF_KAFKA:
        (directory / f"{name}.imported").rename(directory / name)


def test_an_import_that_was_killed_is_repeated(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An import that was killed before it had put Kafka's metadata aside is completed when it is repeated. Until then
    no broker starts: Kafka could still run on the directory."""
    before = _agreed(read_image(directory / "metadata.sqlite"))
    assert main(["log", "export-kafka", str(directory)]) == 0
    _break_off_the_import(directory)
    capsys.readouterr()
    assert main(["serve", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]) == 1
    assert f"was not completed: repeat `klamm log import-kafka {directory}`" in capsys.readouterr().err
    assert main(["log", "import-kafka", str(directory), "--dry-run"]) == 0
    assert all((directory / name).exists() for name in ("metadata.sqlite", *_OF_KAFKA))
    assert main(["log", "import-kafka", str(directory)]) == 0
    assert not any((directory / name).exists() for name in _OF_KAFKA)
    assert _agreed(read_image(directory / "metadata.sqlite")) == before
    with Broker(data_dir=directory):
        pass


def test_the_metadata_of_two_programs_that_have_run_are_left_alone(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a broker of klamm has run since Kafka's metadata was written, an import would undo its changes. The refusal
    tells which files to move, after an export that was killed, for example."""
    before = _agreed(read_image(directory / "metadata.sqlite"))
    copy = directory.parent / "copy"
    shutil.copy(directory / "metadata.sqlite", copy)
    assert main(["log", "export-kafka", str(directory)]) == 0
    copy.rename(directory / "metadata.sqlite")
    capsys.readouterr()
    assert main(["log", "import-kafka", str(directory)]) == 1
    said = capsys.readouterr().err
    assert "has klamm's metadata already (metadata.sqlite), and Kafka's too (__cluster_metadata-0)" in said
    assert "move __cluster_metadata-0 and bootstrap.checkpoint to another place" in said
    assert _agreed(read_image(directory / "metadata.sqlite")) == before
    with Broker(data_dir=directory):
        pass
