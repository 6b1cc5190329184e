"""Tests which sessions use the archive of Spark's classes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from klamm.spark import class_archive
from klamm.spark.class_archive import (
    CLASS_PATH,
    JAVA_OPTIONS,
    archive_options,
    find_archive,
    front_of_class_path,
    lacks_archive,
    possible_archives,
    recording_options,
    use_archive,
)
from klamm.spark.java import JavaHome


@pytest.fixture
def java(tmp_path: Path) -> JavaHome:
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n', encoding="utf-8")
    return JavaHome(home, 17, "JAVA_HOME")


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar for checkpoints, as if it was built."""
    jar = tmp_path / "checkpoints.jar"
    jar.write_bytes(b"a jar")
    monkeypatch.setattr(class_archive, "is_built", lambda: True)
    monkeypatch.setattr(class_archive, "jar_path", lambda: jar)
    return jar


@pytest.fixture
def archive(java: JavaHome, jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive, in the environment's folder."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    archive = possible_archives(java)[0]
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"classes")
    return archive


def test_a_session_uses_the_archive_with_its_class_path(java: JavaHome, jar: Path, archive: Path) -> None:
    """The settings get the JVM's options behind those of the caller, and the jar with which the archive was made."""
    settings: dict[str, str | int | float | bool] = {JAVA_OPTIONS: "-Dmine=1"}
    use_archive(settings, java)
    assert settings == {JAVA_OPTIONS: f"-Dmine=1 {archive_options(archive)}", CLASS_PATH: str(jar)}


def test_without_the_jar_the_class_path_stays(java: JavaHome, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has not built the jar has an archive for Spark's jars alone."""
    monkeypatch.setattr(class_archive, "is_built", lambda: False)
    possible_archives(java)[0].write_bytes(b"classes")
    settings: dict[str, str | int | float | bool] = {}
    use_archive(settings, java)
    assert settings.keys() == {JAVA_OPTIONS}


@pytest.mark.parametrize(
    "settings",
    [
        {CLASS_PATH: "/other.jar"},
        {JAVA_OPTIONS: "-XX:SharedArchiveFile=/mine.jsa"},
        {JAVA_OPTIONS: "-XX:ArchiveClassesAtExit=/mine.jsa"},
        {JAVA_OPTIONS: "-Xshare:off"},
        {JAVA_OPTIONS: "-Xshare:auto"},
    ],
)
def test_the_callers_own_choice_is_kept(
    java: JavaHome, archive: Path, settings: dict[str, str | int | float | bool]
) -> None:
    """Another class path, or the caller's own options for archives, keep klamm's archive out."""
    before = dict(settings)
    use_archive(settings, java)
    assert settings == before
    archive.unlink()
    assert not lacks_archive(settings, java)


def test_a_session_without_an_archive_is_as_before(java: JavaHome, archive: Path) -> None:
    """Nothing changes on a machine that was not prepared."""
    archive.unlink()
    settings: dict[str, str | int | float | bool] = {}
    use_archive(settings, java)
    assert settings == {}


def test_a_machine_that_was_not_prepared_is_told_apart(java: JavaHome, archive: Path) -> None:
    """A session lacks an archive until there is one."""
    assert not lacks_archive({}, java)
    archive.unlink()
    assert lacks_archive({}, java)
    assert lacks_archive({JAVA_OPTIONS: "-Dmine=1", CLASS_PATH: front_of_class_path()}, java)


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", None])
def test_with_configuration_files_an_archive_would_not_help(
    java: JavaHome, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    """Java refuses an archive when a folder on the class path has files, so no session lacks one then."""
    archive.unlink()
    folder = tmp_path / "spark" / "conf"
    folder.mkdir(parents=True)
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable or "SPARK_HOME", str(folder if variable else folder.parent))
    assert lacks_archive({}, java)
    (folder / "spark-defaults.conf").write_text("spark.ui.enabled false\n", encoding="utf-8")
    assert not lacks_archive({}, java)


@pytest.mark.parametrize("change", ["Java is upgraded", "the jar is built again", "another Spark"])
def test_an_outdated_archive_is_not_used(
    java: JavaHome, jar: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """An archive fits the Java, the Spark and the jar with which it was made."""
    assert find_archive(java) == archive
    if change == "Java is upgraded":
        (java.path / "release").write_text('JAVA_VERSION="17.0.2"\n', encoding="utf-8")
    elif change == "the jar is built again":
        os.utime(jar, ns=(1, 1))
    else:
        monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert find_archive(java) is None


def test_the_users_cache_is_the_second_place(
    java: JavaHome, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the environment's folder can't be written to, the archive is in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive.unlink()
    cached = tmp_path / "cache" / "klamm" / archive.name
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"classes")
    assert find_archive(java) == cached


def test_a_path_with_a_space_is_one_option() -> None:
    """Spark splits the options as a shell does."""
    assert archive_options(Path("/a b/c.jsa")).startswith('"-XX:SharedArchiveFile=/a b/c.jsa" -Xlog')
    assert recording_options(Path("/c.jsa")).startswith("-XX:ArchiveClassesAtExit=/c.jsa -Xlog")
