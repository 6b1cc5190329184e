"""The Python that Spark starts for its workers on this machine, with a faster import of PySpark.

Spark puts its own archive, `pyspark.zip`, first on the path of each Python that it starts. Python does not cache the
bytecode of modules in an archive, so every process compiles PySpark again. That takes about 0.6 s of processor time for
each of a query's planning, its stream and its tasks. pip has installed the same modules as files with cached bytecode.
A wrapper script removes the archives from the path, so that Python imports these files.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Final

from klamm.spark.machine_folders import package_folder, spark_home
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
    """Returns the value of `PYSPARK_PYTHON` for drivers and workers on the same machine.

    It is the wrapper script if pip has installed PySpark, else this Python."""
    lib = _archives_of_pip()
    if lib is None or os.name != "posix":
        return sys.executable
    script = _WRAPPER.replace("{lib}", quoted(lib)).replace("{python}", quoted(sys.executable))
    try:
        wrapper = write_wrapper(_NAME, script)
    except OSError:
        return sys.executable
    # Home directories may be on a file system that forbids execution.
    return str(wrapper) if os.access(wrapper, os.X_OK) else sys.executable


def _archives_of_pip() -> Path | None:
    """Returns the folder of the archives that this environment's Python does not need; None if it needs them."""
    pyspark, py4j, home = package_folder("pyspark"), package_folder("py4j"), spark_home()
    if pyspark is None or py4j is None or home is None:
        return None
    installed = {
        *map(sysconfig.get_path, ("purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
    if not {pyspark.resolve().parent, py4j.resolve().parent} <= {Path(each).resolve() for each in installed}:
        return None
    # The archives of another Spark may have another version.
    return home / "python" / "lib" if home.resolve() == pyspark.resolve() else None
