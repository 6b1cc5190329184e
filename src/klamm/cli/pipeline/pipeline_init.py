"""`klamm pipeline init`: writes a file with a pipeline that runs as it is."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import sys
from pathlib import Path
from typing import Final

from klamm.cli.errors import UsageError
from klamm.errors import KlammError

__all__ = ["run"]

_TEXT: Final = '''\
"""The pipeline {name}: reads JSON from the topic {name}, and writes what is worth knowing to another topic.

    klamm topic create {name}
    klamm pipeline check {file}
    klamm pipeline run {file}
"""

from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_topic, topic

pipeline = Pipeline("{name}")


@pipeline.flow(
    source=topic("{name}", decode=json("time timestamp, name string, amount double")),
    sink=to_topic("{name}-large", key="name"),
    check="amount >= 0",  # other records are dead letters, in the topic {name}.large.dead-letters
)
def large({name}: DataFrame) -> DataFrame:
    """Keeps the large ones."""
    return {name}.where("amount >= 100")
'''


def run(arguments: argparse.Namespace) -> int:
    """Writes the file. Raises UsageError for a name that is no module's, KlammError if the file exists."""
    path = Path(arguments.file)
    if path.suffix != ".py":
        raise UsageError(f"{path}: the file of a pipeline ends with .py")
    name = path.stem
    if reason := _why_not_importable(name):
        raise UsageError(
            f"{path}: {reason}, so tests could not import the file. Choose a name of letters, digits and _, such as "
            f"{path.with_name(_importable(name))}"
        )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEXT.format(name=name, file=shlex.quote(arguments.file)))
    except FileExistsError:
        raise KlammError(f"{path} exists already; it is left as it is") from None
    except OSError as error:
        raise KlammError(f"{path} can't be written: {error.strerror}") from None
    print(f"{path} is written; `klamm pipeline check {shlex.quote(str(path))}` shows what it would do")
    return 0


def _why_not_importable(name: str) -> str | None:
    """Returns why `import name` would not give the file; None if it would."""
    if keyword.iskeyword(name):
        return f"{name} is a word of Python's language"
    if name in sys.stdlib_module_names:
        return f"{name} is a module of Python's"
    return None if name.isidentifier() and name.isascii() else f"{name!r} is no name of a module"


def _importable(name: str) -> str:
    """Returns a name like this one that can be imported."""
    words = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    is_free = words.isidentifier() and _why_not_importable(words) is None
    return f"{words}.py" if is_free else f"{words}_pipeline.py" if words.isidentifier() else f"pipeline_{words}.py"
