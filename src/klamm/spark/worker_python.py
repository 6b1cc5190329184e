"""The Python that Spark shall start for its workers on this machine, and how it finds PySpark there.

Spark puts its own archive, `pyspark.zip`, before everything else on the path of each Python that it starts. Python
keeps no compiled form of what lies in an archive, so every such process compiles PySpark anew: about 0.6 s of processor
time, for a query's planning, its stream and its tasks one after the other. pip has installed the same modules as files,
with their compiled form beside them; a wrapper takes the archives off the path, and they are found.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from klamm.spark.wrapper_script import quoted, write_wrapper

__all__ = ["worker_python"]

_NAME: Final = "python-for-spark"
_WRAPPER: Final = """\
#!/bin/sh
# Starts Python without PySpark's archives on its path: pip has installed the same modules, compiled.
rest=$PYTHONPATH:
kept=
while [ -n "$rest" ]; do
  entry=${rest%%:*}
  rest=${rest#*:}
  case $entry in
    '' | {lib}/pyspark.zip | {lib}/py4j-*-src.zip) ;;
    *) kept=$kept${kept:+:}$entry ;;
  esac
done
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python() -> str:
    """What to put into `PYSPARK_PYTHON` where drivers and workers share a machine: the wrapper if PySpark is installed
    as pip does it, else this very Python."""
    lib = _archives_of_pip()
    if lib is None or os.name != "posix":
        return sys.executable
    script = _WRAPPER.replace("{lib}", quoted(lib)).replace("{python}", quoted(sys.executable))
    try:
        wrapper = write_wrapper(_NAME, script)
    except OSError:
        return sys.executable
    # Home directories may lie on a file system from which nothing can be started.
    return str(wrapper) if os.access(wrapper, os.X_OK) else sys.executable


def _archives_of_pip() -> Path | None:
    """Where the archives lie that any Python of this environment can do without; None if it can't."""
    pyspark, py4j = _folder_of("pyspark"), _folder_of("py4j")
    if pyspark is None or py4j is None:
        return None
    installed = {
        *map(sysconfig.get_path, ("purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
    if not {pyspark.resolve().parent, py4j.resolve().parent} <= {Path(each).resolve() for each in installed}:
        return None
    home = Path(os.environ.get("SPARK_HOME") or pyspark)
    # Another Spark's archive may hold another version.
    return home / "python" / "lib" if home.resolve() == pyspark.resolve() else None


def _folder_of(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
