"""Does what the tutorial "First steps" says: its programs and commands, with the same records, members and failures.

How far a group is at a moment differs from run to run, so most outputs are compared by what they say, and not by their
figures.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.patience import Limit
from tests.support.tutorial_output import differs
from tests.support.tutorial_page import Command, File, read_page
from tests.support.tutorial_reader import reader_environment

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-steps.md"
_ADDRESS = "127.0.0.1:9092"
_PATIENCE_S = 60.0
_RECORD = re.compile(r"^\w+: (\d+)@(\d+) ", re.MULTILINE)
_COUNT = re.compile(r"^\|\s*(\w+)\|\s*(\d+)\|$", re.MULTILINE)
_EXPLAIN = "klamm group explain billing"
_STATISTICS = "klamm group describe statistics"
_CONSUME = r"klamm consume orders -e -f '%p@%o %k: %s\n'"


class Terminal:
    """A terminal in which a command of the page goes on."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str], output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
            )

    @property
    def text(self) -> str:
        """What the command has printed."""
        return self._output.read_text(encoding="utf-8")

    @property
    def records(self) -> list[tuple[int, int]]:
        """The partitions and offsets of the records that a worker has printed."""
        return [(int(partition), int(offset)) for partition, offset in _RECORD.findall(self.text)]

    def until(self, is_so: Callable[[], object]) -> None:
        """Waits until something is so."""
        limit = Limit(_PATIENCE_S)
        while not is_so():
            assert not limit.is_over, self.text
            time.sleep(0.05)

    def shows(self, *lines: str) -> None:
        """Waits until the command has printed these lines."""
        self.until(lambda: set(lines) <= set(self.text.splitlines()))

    def stop(self) -> None:
        """Stops the command with Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_PATIENCE_S)


class Reader:
    """A reader of the page, who runs only what the page shows."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._page = _PAGE.read_text(encoding="utf-8")
        self._outputs: dict[str, list[str]] = {}
        self.terminals: list[Terminal] = []
        for step in read_page(_PAGE):
            if isinstance(step, File):
                assert _ADDRESS in step.text
                text = step.text.replace(_ADDRESS, environment["KLAMM_BOOTSTRAP_SERVER"])
                File(step.name, text).apply(folder)
            elif isinstance(step, Command):
                self._outputs.setdefault(step.text, []).append(step.output)

    def shown(self, command: str) -> list[str]:
        """Returns the outputs of a command on the page; none if it stands in a sentence."""
        assert command in self._outputs or f"`{command}`" in self._page, f"the page does not show $ {command}"
        return self._outputs.get(command, [])

    def start(self, command: str) -> Terminal:
        """Starts a command in a terminal of its own."""
        self.shown(command)
        output = self._folder / f"terminal-{len(self.terminals)}"
        self.terminals.append(Terminal(command, self._folder, self._environment, output))
        return self.terminals[-1]

    def run(self, command: str, *, fails: bool = False) -> str:
        """Runs a command to its end, and returns its output; its errors if it fails."""
        self.shown(command)
        run = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (run.returncode != 0) is fails, run.stdout + run.stderr
        return run.stderr if fails else run.stdout

    def sees(self, command: str, *varying: str, is_ordered: bool = True) -> None:
        """Runs a command until it shows what the page shows, apart from these columns."""
        (expected, *_) = self.shown(command)
        any_value = dict.fromkeys(varying, ".*")
        in_order = str if is_ordered else _sorted
        self.finds(command, lambda shown: not differs(in_order(expected), in_order(shown), any_value, {}))

    def finds(self, command: str, is_so: Callable[[str], object]) -> str:
        """Runs a command until its output is so, and returns the output."""
        limit = Limit(_PATIENCE_S)
        while not is_so(output := self.run(command)):
            assert not limit.is_over, f"$ {command}\n{output}"
        return output


@pytest.fixture
def reader(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Yields a reader in an empty folder; ends the commands that still run."""
    environment = reader_environment(tmp_path_factory.mktemp("conf")) | {"PYTHONUNBUFFERED": "1"}
    reading = Reader(tmp_path, environment)
    yield reading
    for terminal in reading.terminals:
        terminal.process.kill()
        terminal.process.wait()


@pytest.mark.timeout(1200)
def test_first_steps(reader: Reader) -> None:
    """Each program and command of the page does what the page says of it."""
    broker = _serve(reader)
    _write_and_read(reader)
    workers, producer = _share_the_work(reader)
    owner, standby = _find_the_standby(reader)
    _kill_the_owner(reader, workers, owner, standby)
    _read_with_another_group(reader)
    _replay(reader, [*workers.values(), producer])
    _use_environments(reader)
    _count_with_spark(reader)
    _kill_the_broker(reader, broker)


def _serve(reader: Reader) -> Terminal:
    broker = reader.start("klamm serve")
    broker.until(lambda: broker.text.startswith("ready 127.0.0.1:"))
    return broker


def _write_and_read(reader: Reader) -> None:
    reader.sees("klamm topic create orders -p 3")
    reader.sees("klamm topic describe orders")
    reader.sees(r"printf 'amalia:1 map\nfrieda:2 beers\nolga:1 letter\nfrieda:1 lamp\n' | klamm produce orders -K :")
    reader.sees(_CONSUME, is_ordered=False)
    (row,) = reader.run("klamm consume orders -e -p 2 --from 1").splitlines()[1:]
    topic, partition, offset, _, key, value = row.split("\t")
    assert (topic, partition, offset, key, value) == ("orders", "2", "1", "frieda", "1 lamp")


def _share_the_work(reader: Reader) -> tuple[dict[str, Terminal], Terminal]:
    one = reader.start("python worker.py one")
    one.shows(*reader.shown("python worker.py one")[0].splitlines())
    reader.sees("klamm group describe billing", "MEMBER")
    producer = reader.start("python producer.py")
    one.until(lambda: len(one.records) > 10)

    two = reader.start("python worker.py two")
    one.shows("one gave back [0, 1, 2]")
    two.until(lambda: len(two.records) > 1)
    records = one.records + two.records
    for partition in range(3):
        offsets = sorted(offset for each, offset in records if each == partition)
        assert offsets == list(range(len(offsets))), "a record is skipped, or processed twice"
    texts = (
        "generation 0 → 1 ",
        "why     member one joined (127.0.0.1)",
        "moved   orders 0-2: → one",
        "generation 1 → 2 ",
        "why     member two joined (127.0.0.1)",
        ": one → two",
    )
    reader.finds("klamm group history billing", lambda history: all(text in history for text in texts))

    others = {name: reader.start(f"python worker.py {name}") for name in ("three", "four")}
    return {"one": one, "two": two, **others}, producer


def _find_the_standby(reader: Reader) -> tuple[str, str]:
    """Returns the client ids of the member with partition 2 and of the one without a partition."""
    members = reader.finds(
        "klamm group describe billing -m",
        lambda output: output.startswith("group billing: stable") and output.count("/127.0.0.1") == 4,
    )
    rows = [re.split(r"\s{2,}", line.strip()) for line in members.splitlines()[2:]]
    clients = {partitions: client for _, _, client, _, _, _, partitions, _ in rows}
    assert clients.keys() == {"orders-0", "orders-1", "orders-2", "none"}
    owner, standby = clients["orders-2"], clients["none"]
    explanation = reader.run(_EXPLAIN)
    assert f"4 members, 3 partitions: one stays idle ({standby}) and takes over when another one goes" in explanation
    assert "· stands by: all partitions are with others, and it takes over when one of them goes" in explanation
    return owner, standby


def _kill_the_owner(reader: Reader, workers: dict[str, Terminal], owner: str, standby: str) -> None:
    before = len(workers[standby].text)
    workers[owner].until(lambda: any(partition == 2 for partition, _ in workers[owner].records))
    workers[owner].process.kill()
    workers[owner].process.wait()
    last = max(offset for partition, offset in workers[owner].records if partition == 2)
    workers[standby].until(lambda: _RECORD.search(workers[standby].text[before:]))
    assert f"{standby} was given [2]\n" in workers[standby].text[before:]
    first = _RECORD.search(workers[standby].text[before:])
    assert first is not None
    assert (int(first[1]), int(first[2])) in ((2, last), (2, last + 1))
    because = f"because member {owner}: no heartbeat for 6000 ms"
    since = re.compile(rf"orders 2: since generation \d+, .* ago, from {owner}, {because}")
    reader.finds(_EXPLAIN, since.search)
    texts = (
        f"why     member {owner}: no heartbeat for 6000 ms (127.0.0.1)",
        f"moved   orders 2: {owner} → {standby}",
    )
    reader.finds("klamm group history billing --limit 1", lambda history: all(text in history for text in texts))


def _read_with_another_group(reader: Reader) -> None:
    read = reader.run(r"klamm consume orders -g reporting -e -f '%p@%o %k: %s\n'").splitlines()
    assert {"0@0 amalia: 1 map", "0@1 amalia: order 1", "0@2 amalia: order 5", "1@0 olga: 1 letter"} <= set(read)
    reader.sees("klamm group list")


def _replay(reader: Reader, programs: list[Terminal]) -> None:
    dry = "klamm group reset billing --to-earliest"
    refused, _ = reader.shown(dry)
    assert reader.run(dry, fails=True) == refused
    for program in programs:
        program.stop()
    assert "\nnothing was changed: this is what --execute would do\n" in reader.run(dry)
    assert "\ngroup billing: 3 offsets set\n" in reader.run(f"{dry} --execute")
    again = reader.start("python worker.py one")
    again.shows(*reader.shown("python worker.py one")[1].splitlines())
    again.stop()


def _use_environments(reader: Reader) -> None:
    assert len(reader.run("klamm consume orders -g billing-dev -n 5").splitlines()) == 1 + 5
    reader.run("klamm consume orders -g billing-prod -e > /dev/null")
    assert "uncommitted)" in reader.run("klamm group describe billing-dev")
    assert reader.run("klamm group describe billing-prod").startswith("group billing-prod: empty, 0 members, lag 0\n")
    reader.run("klamm group delete billing-dev")


def _count_with_spark(reader: Reader) -> None:
    keys = Counter(line.split()[1].rstrip(":") for line in reader.run(_CONSUME).splitlines())
    count = "python count_orders.py 2> spark.log"
    first = reader.run(count)
    assert "Batch: 0\n" in first
    assert {key: int(orders) for key, orders in _COUNT.findall(first)} == keys
    reader.run(r"printf 'amalia:2 maps\nolga:3 letters\n' | klamm produce orders -K :")
    assert reader.run(_STATISTICS).startswith("group statistics: empty, 0 members, lag 2, Spark application local-")
    second = reader.run(count)
    assert "Batch: 1\n" in second
    assert {key: int(orders) for key, orders in _COUNT.findall(second)} == keys + Counter(["amalia", "olga"])


def _kill_the_broker(reader: Reader, broker: Terminal) -> None:
    broker.process.kill()
    broker.process.wait()
    broker = _serve(reader)
    read = reader.run(f"{_CONSUME} | sort | head -3").splitlines()
    assert read[:2] == ["0@0 amalia: 1 map", "0@1 amalia: order 1"]
    assert reader.run(_STATISTICS).startswith("group statistics: empty, 0 members, lag 0, ")
    broker.stop()
    assert broker.process.returncode == 0


def _sorted(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))
