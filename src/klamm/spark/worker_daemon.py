"""Spark's daemon of Python workers, quiet about workers whose reader has gone.

A query with a limit, like `show` or `limit(5).collect()`, hangs up on a worker as soon as it has its rows. The worker
then fails to write the rest, prints the traceback of a BrokenPipeError and ends, as Spark means it to
(`spark.python.daemon.killWorkerOnFlushFailure`). Over TCP that is rare. Over Unix-domain sockets, which klamm's
sessions use, it happens every time. Here such a worker ends without the traceback. Other errors are printed as before.

The processes in which Spark plans a query have Spark's own daemon, whatever the settings say. Spark hangs up on them
when it has its answer, which may be before the last bytes of it are written. So klamm's data source calls
`end_quietly` there.
"""

from __future__ import annotations

import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Final

__all__ = ["end_quietly", "main"]

_DAEMON: Final = "pyspark.daemon"


def main() -> None:
    """Runs the daemon: what `spark.python.daemon.module` names is started in place of `pyspark.daemon`."""
    from pyspark import daemon

    _quieten(daemon)
    daemon.manager()


def end_quietly() -> None:
    """Where this process is a child of Spark's own daemon, it ends without the traceback, too."""
    program = sys.modules["__main__"]
    spec = getattr(program, "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        _quieten(program)


def _quieten(daemon: ModuleType) -> None:
    vars(daemon)["traceback"] = SimpleNamespace(**vars(traceback) | {"print_exc": _print_error})


def _print_error() -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    main()
