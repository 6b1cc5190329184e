"""The `klamm` command as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.cli.conftest import KLAMM, PATIENCE_S, Command

from klamm import __version__
from klamm.testing import Broker

# No broker listens here: the port is reserved.
NOBODY = "127.0.0.1:1"


def test_it_tells_its_version(klamm: Command) -> None:
    """--version prints the version without loading a client library."""
    assert klamm.done("--version") == f"klamm {__version__}\n"
    code = (
        "import sys; from klamm.cli.main import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name.partition('.')[0] in ('confluent_kafka', 'asyncio', 'rich') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("noun", ["serve", "topic", "produce", "consume", "group", "env", "log", "context"])
def test_help_is_there_for_every_noun(klamm: Command, noun: str) -> None:
    """--help of every command prints to standard output and exits with status 0."""
    assert klamm.done(noun, "--help").startswith(f"usage: klamm {noun}")
    assert noun in klamm.done("--help")


def test_alone_it_shows_its_help(klamm: Command) -> None:
    """`klamm` alone prints its help. A command without its verb prints its help to standard error with status 2,
    because a script may have lost the word."""
    assert klamm.done() == klamm.done("--help")
    for noun in ("topic", "group", "txn", "env", "log", "context"):
        finished = klamm(noun)
        assert (finished.status, finished.stdout) == (2, "")
        assert finished.stderr.startswith(klamm.done(noun, "--help"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topics",), "klamm: error: argument COMMAND: invalid choice: 'topics' (choose from"),
        (("group", "descrbe", "g"), "klamm group: error: argument VERB: invalid choice: 'descrbe'"),
        (
            ("serve", "--data-dri", "x"),
            "klamm serve: error: unrecognized arguments: --data-dri x (did you mean --data-dir?)",
        ),
        (("group", "list", "--outptu=json"), "unrecognized arguments: --outptu=json (did you mean --output?)"),
        (("topic", "list", "--castle"), "klamm topic list: error: unrecognized arguments: --castle\n"),
    ],
)
def test_a_typo_is_told_with_what_may_be_meant(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """An error for a mistyped command or option suggests the correct word and comes from the subcommand concerned."""
    finished = klamm(*words)
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
    for word, meant in (("topics", "topic"), ("descrbe", "describe")):
        assert word not in words or finished.stderr.endswith(f"(did you mean {meant}?)\n")


def test_a_key_of_a_topic_that_does_not_exist_is_told_with_what_may_be_meant(klamm: Command) -> None:
    """An error for a mistyped topic configuration key suggests the correct key, for create and alter."""
    finished = klamm("topic", "create", "castle-keys", "-c", "retenton.ms=1000")
    assert finished.status == 1
    assert finished.stderr.endswith("Unknown topic config name: retenton.ms (did you mean retention.ms?)\n")
    klamm.done("topic", "create", "castle-keys", "-p", "1")
    finished = klamm("topic", "alter", "castle-keys", "-c", "cleanup.polcy=compact")
    assert finished.stderr.endswith("Unknown topic config name: cleanup.polcy (did you mean cleanup.policy?)\n")


def test_a_variable_that_nobody_reads_is_told(klamm: Command) -> None:
    """An unknown KLAMM_ environment variable is reported on standard error. Variables of broker keys and of other
    commands are known."""
    klamm.environment |= {"KLAMM_NUM_PARTITIONS": "3", "KLAMM_CONFIG": "/nonexistent/contexts.toml"}
    assert klamm("topic", "list").stderr == ""
    klamm.environment["KLAMM_BOOTSTRAP_SERVERS"] = NOBODY
    finished = klamm("topic", "list")
    assert finished.status == 0
    assert finished.stderr == (
        "klamm: the environment variable KLAMM_BOOTSTRAP_SERVERS (did you mean KLAMM_BOOTSTRAP_SERVER?) stands for "
        "nothing and is ignored\n"
    )


@pytest.mark.parametrize("words", [("castle",), ("--castle",), ("--",)])
def test_what_is_no_command_is_wrong_use(klamm: Command, words: tuple[str, ...]) -> None:
    """An unknown command or option prints the usage on standard error and exits with status 2."""
    finished = klamm(*words)
    assert (finished.status, finished.stdout) == (2, "")
    assert "usage: klamm" in finished.stderr


def test_where_no_broker_is_every_command_says_what_to_do(klamm: Command) -> None:
    """If no broker answers, every command fails with one line that says what to do, before librdkafka's own timeout."""
    commands = [
        ("topic", "list"),
        ("topic", "create", "orders"),
        ("topic", "describe", "orders"),
        ("topic", "describe", "orders", "--configs"),
        ("topic", "alter", "orders", "-p", "2"),
        ("topic", "delete", "orders"),
        ("produce", "orders", "/dev/null"),
        ("consume", "orders", "-e"),
        ("consume", "orders", "-g", "billing"),
        ("group", "list"),
        ("group", "describe", "billing"),
        ("group", "reset", "billing", "--to-earliest"),
        ("group", "delete", "billing"),
        ("group", "history", "billing"),
        ("group", "watch", "billing"),
        ("group", "explain", "billing"),
        ("group", "clone", "prod.billing", "dev.billing"),
        ("env", "compare", "billing"),
        ("log", "replay", "__consumer_offsets-0"),
    ]
    running = [(words, klamm.start(*words, "-b", NOBODY)) for words in commands]
    for words, process in running:
        output, complaint = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, output) == (1, b""), words
        assert complaint.decode().startswith(f"klamm {words[0]}: no answer from {NOBODY}: "), words
        assert "`klamm serve` starts one; -b HOST:PORT or KLAMM_BOOTSTRAP_SERVER names another." in complaint.decode()
        assert complaint.count(b"\n") == 1, complaint


def test_one_of_several_brokers_is_enough(klamm: Command) -> None:
    """-b takes a list of brokers, of which one must answer, and takes precedence over the environment."""
    bootstrap = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    klamm.environment["KLAMM_BOOTSTRAP_SERVER"] = NOBODY
    klamm.done("topic", "list", "-b", f"{NOBODY},{bootstrap}")


def test_properties_reach_the_client(klamm: Command) -> None:
    """-X sets any librdkafka property that has no own option."""
    klamm.done("topic", "list", "-X", "client.id=somebody", "-X", "socket.timeout.ms=2000")
    finished = klamm("topic", "list", "-X", "security.protocol=ssl")
    assert finished.status == 1
    assert finished.stderr.startswith("klamm topic: ")
    assert finished.stderr.count("\n") == 1


def _without_reader(klamm: Command, *words: str) -> tuple[int, bytes]:
    """Runs a command whose output nothing reads. Returns its status and its standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [KLAMM, *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=klamm.environment,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def test_a_reader_that_ends_is_no_failure(klamm: Command) -> None:
    """A command whose output is a table ends with status 0 if the reader of its output has ended."""
    assert _without_reader(klamm, "topic", "list") == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_can_not_be_written_is_one_line(
    klamm: Command, topic: str, unbuffered: str, tmp_path: Path
) -> None:
    """A full disk under the standard output: one line on standard error and status 1, for short and long outputs."""
    klamm.done("produce", topic, stdin="a\n" * 20_000)
    klamm.environment["PYTHONUNBUFFERED"] = unbuffered
    damaged = tmp_path / "00000000000000000000.log"
    damaged.write_bytes(b"no batch")
    commands = [
        ("--version",),
        ("--help",),
        ("topic", "list", "--help"),
        ("topic", "list"),
        ("topic", "list", "-o", "json"),
        ("topic", "describe", topic, "--configs", "-o", "json"),
        ("consume", topic, "-e"),
        ("consume", topic, "-e", "-n", "1"),
        ("context", "list"),
        ("log", "dump", str(damaged)),
    ]
    for words in commands:
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [KLAMM, *words],
                stdout=full,
                stderr=subprocess.PIPE,
                env=klamm.environment,
                timeout=PATIENCE_S,
                check=False,
            )
        who = "klamm" if words[0].startswith("-") else f"klamm {words[0]}"
        said = f"{who}: the output can't be written: No space left on device\n"
        assert (done.returncode, done.stderr.decode()) == (1, said), words


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_for_a_reader_that_has_ended_is_silent(klamm: Command, unbuffered: str) -> None:
    """A reader that ends before it has read the help gets no complaint."""
    klamm.environment["PYTHONUNBUFFERED"] = unbuffered
    assert _without_reader(klamm, "topic", "--help") == (0, b"")


@pytest.mark.parametrize(
    ("closed", "words", "expected"),
    [
        (">&-", ("topic", "list"), (0, "")),
        ("<&-", ("produce", "orders"), (2, "klamm produce: standard input is closed: name a file\n")),
    ],
)
def test_a_closed_stream_is_no_crash(
    klamm: Command, closed: str, words: tuple[str, ...], expected: tuple[int, str]
) -> None:
    """A program that starts the command may close its streams. Output is dropped then; there is no input to send."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', KLAMM, *words],
        capture_output=True,
        env=klamm.environment,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == expected


def test_a_terminal_without_a_character_is_no_crash(klamm: Command, topic: str, group: str) -> None:
    """Characters that the encoding of the output lacks are printed as escapes."""
    klamm.done("produce", topic, "-p", "0", stdin="a\n")
    klamm.done("consume", topic, "-g", group, "-e")
    klamm.environment["PYTHONIOENCODING"] = "ascii"
    assert r"\xb7" in klamm.done("group", "explain", group)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("topic", "describe", "", "--configs"), "klamm topic: topic: the name is empty\n"),
        (("group", "clone", "", "billing"), "klamm group: source: the name is empty\n"),
        (("worker", "status", ""), "klamm worker: group: the name is empty\n"),
        (("topic", "create", "orders", "-p", "100001"), "takes a number up to 100000, not 100001\n"),
        (("topic", "create", "orders", "-r", "99999999999"), "takes a number up to 10000, not 99999999999\n"),
        (("topic", "alter", "orders", "-p", "100001"), "takes a number up to 100000, not 100001\n"),
    ],
)
def test_what_the_client_library_can_not_send_is_wrong_use(
    klamm: Command, words: tuple[str, ...], complaint: str
) -> None:
    """An empty name, such as from a variable that is not set, and a number beyond the limits of librdkafka."""
    finished = klamm(*words)
    assert (finished.status, finished.stdout) == (2, "")
    assert finished.stderr.endswith(complaint)


def test_the_reason_of_a_failed_connection_is_told(klamm: Command, broker: Broker) -> None:
    """If a broker is not reached, the error names the cause: nothing listens, or the listener has no TLS."""
    refused = klamm("topic", "list", "-b", NOBODY)
    assert (refused.status, refused.stdout) == (1, "")
    assert f"no answer from {NOBODY}: " in refused.stderr
    assert "Connection refused" in refused.stderr
    plain = klamm("topic", "list", "-b", broker.bootstrap_servers, "-X", "security.protocol=SSL")
    assert plain.status == 1
    assert "connecting to a PLAINTEXT broker listener. " in plain.stderr


@pytest.mark.parametrize("words", [("check", "flights.py"), ("status", "flights.py"), ("prepare",)])
def test_pipelines_without_pyspark_are_told_what_to_install(words: tuple[str, ...]) -> None:
    """Without PySpark, the verbs of `klamm pipeline` that need it name the extra to install, without a traceback."""
    code = (
        "import sys; sys.modules['pyspark'] = None; from klamm.cli.main import main\n"
        f"sys.exit(main(['pipeline', *{words!r}]))"
    )
    finished = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("klamm pipeline: ")
    assert "pip install '.[spark]' in a clone of klamm" in finished.stderr
    assert "Traceback" not in finished.stderr
