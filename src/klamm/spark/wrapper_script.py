"""Shell scripts that wrap a program started by Spark, to change what Spark's settings can't change."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from klamm.spark.machine_folders import cache_folder

__all__ = ["quoted", "write_wrapper"]


def quoted(path: str | Path) -> str:
    """Quotes a path as one word of a shell script."""
    return "'" + str(path).replace("'", "'\\''") + "'"


def write_wrapper(name: str, script: str) -> Path:
    """Writes the script as a program `bin/<name>` in a folder of its own, and returns its path.

    The folder is in the user's cache, or a temporary folder if the cache is read-only. In the cache, the same script is
    written once. Raises OSError.
    """
    folder = cache_folder() / f"{name}-{sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write(folder / "bin" / name, script)
    except OSError:
        return _write(Path(tempfile.mkdtemp(prefix=f"klamm-{name}-")) / "bin" / name, script)


def _write(target: Path, script: str) -> Path:
    if not (target.is_file() and os.access(target, os.X_OK) and target.read_text(encoding="utf-8") == script):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written to a temporary file and renamed: another process may be starting a session from the target right now.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        Path(name).chmod(0o755)
        Path(name).replace(target)
    return target
