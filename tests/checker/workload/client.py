"""One client in a process of its own, so that it can be killed, and that its end is nobody else's.

python -m tests.checker.workload.client HISTORY BOOTSTRAP SEED NUMBER SLOWNESS NAME; it ends after SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.checker.history import Recorder
from tests.checker.workload.roles import PRODUCERS, READERS
from tests.checker.workload.worker import Setting


def main() -> None:
    """Runs it."""
    # Ctrl-C is for the checker, which then ends its clients.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    history, bootstrap_servers, seed, number, slowness, name = sys.argv[1:]
    recorder = Recorder(Path(history))
    setting = Setting(recorder, bootstrap_servers, int(seed), int(number), slowness=float(slowness))
    worker = (PRODUCERS | READERS)[name](setting, name)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()
    recorder.close()


if __name__ == "__main__":
    main()
