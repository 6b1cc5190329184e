"""Does what a page of the documentation says, in an empty folder, and compares the outputs with those of the page.

    python -m tests.support.tutorial_reader PAGE FOLDER

plays a page in a folder that has what the page's installation puts there, and prints the outputs that differ. For a new
page, write ? for each output.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.ports import free_port
from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.tutorial_output import differs, tidy
from tests.support.tutorial_page import Command, Step, read_page

__all__ = ["TutorialReader", "reader_environment"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_LOOK_INTERVAL_S: Final = 0.2
_COMMAND_TIMEOUT_S: Final = 300.0
_TERMINAL_SIZE: Final = "cols 200 rows 40"
_KILL: Final = re.compile(r"kill\b.* (\d+)")
_UNKNOWN: Final = "?\n"
# These change nothing, so a reader repeats them until they show what the page shows.
_LOOKS: Final = re.compile(r"klamm (consume|(pipeline|txn) status|(group|topic) (describe|list))\b")


def reader_environment(folder: Path) -> dict[str, str]:
    """Returns variables that no reader needs: another port, this clone's code, and a quicker start of Spark, whose
    settings are written to `folder`."""
    lines = (f"{key} {value}\n" for key, value in SHORT_LIVED_JVM.items())
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(_ROOT / "src"),
        "KLAMM_LISTENERS": f"PLAINTEXT://{address}",
        "KLAMM_BOOTSTRAP_SERVER": address,
        "SPARK_CONF_DIR": str(folder),
        "LC_ALL": "C.UTF-8",  # the order of `sort`
    }


class _Terminal:
    """A terminal in which a command goes on."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        here, there = pty.openpty()
        self.process = subprocess.Popen(
            ["bash", "-c", f"stty {_TERMINAL_SIZE}; exec {command}"],
            cwd=folder,
            env=environment,
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
        )
        os.close(there)
        self.text = ""
        threading.Thread(target=self._read, args=(here,), daemon=True).start()

    def _read(self, here: int) -> None:
        with open(here, "rb", buffering=0) as screen, suppress(OSError):  # Linux: an error tells the end
            while part := screen.read(65536):
                self.text += part.decode(errors="replace")


class TutorialReader:
    """A reader with as many terminals as the page needs. A context manager that ends what still runs."""

    def __init__(self, folder: Path, stands_for: str, environment: Mapping[str, str], patience_s: float) -> None:
        """Works in `folder`, where the page works in the folder `stands_for`."""
        self._folder = folder
        self._stands_for = stands_for
        self._environment = dict(environment)
        self._patience_s = patience_s
        self._terminals: list[_Terminal] = []
        self._names: dict[str, str] = {}
        """What the page shows for what is so in this run: process ids."""

    def __enter__(self) -> TutorialReader:
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for terminal in self._terminals:
                with suppress(ProcessLookupError):
                    os.killpg(terminal.process.pid, number)
            for terminal in self._terminals:
                with suppress(subprocess.TimeoutExpired):
                    terminal.process.wait(5)

    def do(self, step: Step) -> str | None:
        """Does a step. Returns None, or the output if it is not that of the page."""
        if not isinstance(step, Command):
            step.apply(self._folder)
            return None
        if (killed := _KILL.match(step.text)) and killed[1] not in self._names:
            return f"no output above has shown the process {killed[1]}"
        text = step.text.replace(self._stands_for, str(self._folder))
        for shown, real in self._names.items():
            text = re.sub(rf"\b{shown}\b", real, text)
        return self._leave_running(step, text) if step.leaves_running else self._run(step, text)

    def _leave_running(self, step: Command, text: str) -> str | None:
        terminal = _Terminal(text, self._folder, self._environment)
        self._terminals.append(terminal)
        expected = {tidy(line) for line in step.output.splitlines()}

        def missing() -> str | None:
            lines = map(tidy, re.split(r"[\r\n]+", terminal.text))
            return None if expected <= set(lines) else terminal.text[-4000:]

        return self._wait(missing, lambda: terminal.process.poll() is not None)

    def _run(self, step: Command, text: str) -> str | None:
        shown = ""

        def different() -> str | None:
            nonlocal shown
            run = subprocess.run(
                ["bash", "-c", text],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_COMMAND_TIMEOUT_S,
                check=False,
            )
            shown = run.stdout.replace(str(self._folder), self._stands_for)
            in_order = _as_it_is if step.is_ordered else _sorted
            if not differs(in_order(step.output), in_order(shown), step.varying, self._names):
                return None
            return f"{shown}\n{run.stderr[-2000:]}" if step.output and not shown else shown

        return self._wait(different, lambda: _LOOKS.match(text) is None or step.output == _UNKNOWN)

    def _wait(self, trouble: Callable[[], str | None], is_final: Callable[[], bool]) -> str | None:
        deadline = time.monotonic() + self._patience_s
        while True:
            is_last = is_final() or time.monotonic() > deadline
            found = trouble()
            if found is None or is_last:
                return found
            time.sleep(_LOOK_INTERVAL_S)


def _as_it_is(text: str) -> str:
    return text


def _sorted(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


def main() -> int:
    """Plays a page, goes on after differences, and prints what the page should show. Returns 1 if there are any."""
    page, folder = Path(sys.argv[1]), Path(sys.argv[2])
    has_differed = False
    with TutorialReader(folder, f"/tmp/{page.stem}", os.environ, 90.0) as reader:
        for step in read_page(page):
            began = time.monotonic()
            output = reader.do(step)
            name = f"line {step.line}: $ {step.text}" if isinstance(step, Command) else f"{step.name} written"
            print(f"# {time.monotonic() - began:5.1f} s  {name}", flush=True)
            if output is not None:
                has_differed = True
                print(output, flush=True)
    return int(has_differed)


if __name__ == "__main__":
    sys.exit(main())
