"""Where Spark is installed on this machine, and where klamm keeps files that it can make again."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

__all__ = ["cache_folder", "package_folder", "spark_home"]


def cache_folder() -> Path:
    """Returns klamm's folder in the user's cache; it may not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm"


def package_folder(package: str) -> Path | None:
    """Returns the folder of an installed package, without importing the package; None if it is not installed."""
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def spark_home() -> Path | None:
    """Returns the Spark that a session starts: `SPARK_HOME`, or else pip's PySpark."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else package_folder("pyspark")
