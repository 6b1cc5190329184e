"""`klamm pipeline init`: writes a file with a pipeline that runs as it is."""

from __future__ import annotations

import argparse
import re
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
def large({parameter}: DataFrame) -> DataFrame:
    """Keeps the large ones."""
    return {parameter}.where("amount >= 100")
'''


def run(arguments: argparse.Namespace) -> int:
    """Writes the file. Raises UsageError for a name that is no Python file, KlammError if the file exists."""
    path = Path(arguments.file)
    if path.suffix != ".py":
        raise UsageError(f"{path}: the file of a pipeline ends with .py")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "pipeline"
    parameter = re.sub(r"\W", "_", name)
    if not parameter.isidentifier():
        parameter = "records"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEXT.format(name=name, file=arguments.file, parameter=parameter))
    except FileExistsError:
        raise KlammError(f"{path} exists already; it is left as it is") from None
    except OSError as error:
        raise KlammError(f"{path} can't be written: {error.strerror}") from None
    print(f"{path} is written; `klamm pipeline check {path}` shows what it would do")
    return 0
