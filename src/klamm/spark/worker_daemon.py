"""Spark's daemon of Python workers, without tracebacks of workers whose reader has hung up.

A query with a limit, like `show` or `limit(5).collect()`, hangs up on a worker as soon as it has its rows. The worker
then fails to write the rest, prints the traceback of a BrokenPipeError and ends, as Spark intends
(`spark.python.daemon.killWorkerOnFlushFailure`). That is rare over TCP, but happens every time over Unix-domain
sockets, which klamm's sessions use. With this daemon such a worker ends without the traceback. It prints other errors
as before.

The processes in which Spark plans a query always have Spark's own daemon, independent of the settings. Spark hangs up
on them when it has its result, possibly before they have written its last bytes. So klamm's data source calls
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
    """Runs the daemon. Spark starts the module in `spark.python.daemon.module` in place of `pyspark.daemon`."""
    from pyspark import daemon

    _quieten(daemon)
    daemon.manager()


def end_quietly() -> None:
    """Suppresses the traceback in this process, too, if it is a child of Spark's own daemon."""
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
