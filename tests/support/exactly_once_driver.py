"""A Spark driver in a process of its own that copies the lines of files into a topic, exactly once.

    python -m tests.support.exactly_once_driver '{"input": …, "options": …, "master": …}'

Each file is a micro-batch. The driver ends with status 0 when all files are processed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.short_lived_spark import SHORT_LIVED_JVM


def _main(given: dict[str, Any]) -> None:
    import klamm.spark

    spark = klamm.spark.session("a driver", given["master"], **SHORT_LIVED_JVM)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(given["input"])
    writer = lines.repartition(2).writeStream.format("klamm").options(**given["options"])
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
