"""Finds the Maven jars of Spark's own Kafka connector, with which tests compare klamm's source and sink.

The jars come from the environment variable KLAMM_SPARK_CONNECTOR_CLASSPATH, or from Maven (offline first, then online).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support.short_lived_java import remembered_classpath

from klamm.errors import KlammError

__all__ = ["ConnectorUnavailable", "connector_jars"]

_POM = Path(__file__).parents[1] / "spark" / "connector" / "pom.xml"
# PySpark may be released before the connector's jars are on every mirror of Maven Central. The connector of the release
# before runs in this release of Spark, and its code for tokens has not changed since 4.0.
_VERSIONS = (
    {"connector.version": "4.3.0", "token.provider.version": "4.3.0"},
    {"connector.version": "4.2.0", "token.provider.version": "4.0.0"},
)
_MAVEN_SECONDS = 300


class ConnectorUnavailable(KlammError):
    """An error that Spark's connector is not available on this machine; the text says what is missing."""


@cache
def connector_jars() -> str:
    """Returns a class path with the jars of Spark's connector and of its dependencies outside Spark.

    Raises `ConnectorUnavailable` if Maven is missing or cannot find the jars.
    """
    if given := os.environ.get("KLAMM_SPARK_CONNECTOR_CLASSPATH"):
        return given
    if shutil.which("mvn") is None:
        raise ConnectorUnavailable(
            "no mvn on PATH: install Maven, or set KLAMM_SPARK_CONNECTOR_CLASSPATH to the jars of Spark's connector"
        )
    return remembered_classpath(_POM, _ask_maven)


def _ask_maven(output: Path) -> None:
    failures = []
    for offline in (["-o"], []):
        for versions in _VERSIONS:
            defines = [f"-D{name}={value}" for name, value in versions.items()]
            command = ["mvn", "-q", "-B", "-f", str(_POM), *offline, *defines]
            command += ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MAVEN_SECONDS)
            except subprocess.TimeoutExpired:
                failures.append(f"no answer in {_MAVEN_SECONDS} s")
                continue
            if done.returncode == 0:
                return
            failures.append(done.stdout[-300:])
    raise ConnectorUnavailable(f"Maven could not find Spark's Kafka connector: {failures[-1]}")
