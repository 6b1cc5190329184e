"""Apache Kafka's Java clients in a JVM of their own (java/Client.java is the driver)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.client_process import ClientProcess

__all__ = ["JavaClient", "compile_client"]


def compile_client(classpath: str, target: Path) -> str:
    """Compiles java/*.java into `target`; returns the class path to run it with."""
    sources = sorted(str(path) for path in (Path(__file__).parent / "java").glob("*.java"))
    command = ["javac", "-proc:none", "-d", str(target), "-cp", classpath, *sources]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return f"{target}:{classpath}"


class JavaClient(ClientProcess):
    """A JVM with Java clients; it also performs the operations of java/AdminOperations.java."""

    def __init__(self, classpath: str, bootstrap: str) -> None:
        super().__init__(["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, "Client", bootstrap])
