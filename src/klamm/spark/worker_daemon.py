"""Spark's daemon of Python workers, quiet about workers whose reader has gone.

A query with a limit, like `show` or `limit(5).collect()`, hangs up on a worker as soon as it has its rows. The worker
then fails to write the rest, prints the traceback of a BrokenPipeError and ends, as Spark means it to
(`spark.python.daemon.killWorkerOnFlushFailure`). Over TCP that is rare. Over Unix-domain sockets, which klamm's
sessions use, it happens every time. Here such a worker ends without the traceback. Other errors are printed as before.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

__all__ = ["main"]


def main() -> None:
    """Runs the daemon: what `spark.python.daemon.module` names is started in place of `pyspark.daemon`."""
    from pyspark import daemon

    vars(daemon)["traceback"] = SimpleNamespace(print_exc=_print_error)
    daemon.manager()


def _print_error() -> None:
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    main()
