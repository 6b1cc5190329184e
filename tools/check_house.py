"""Checks the house rules that no linter knows: `make check` runs it. Prints each breach, and then exits with 1.

- Two modules have the same name only if they mean the same thing in two rooms: `SAME_MEANING` lists the meanings.
- No file has more than 400 lines (650 in `tests`) without a reason: `LONG` says why it is long, and how long it may be.
- The docstring of a function begins with a verb in the third person: "Returns", "Appends". Properties are described.
- A logger is `_logger = logging.getLogger(__name__)`.
- Members of an enum are upper case.
- A constant of a module begins with an underscore unless another module uses it.
- `core` and `insight` do not call `open`, `print` or `input`. (`lint-imports` checks what they import.)
- A mark `flaky` says which error of another program it is for (`only_rerun`), with the reason and a link above it.
- The files and names in ARCHITECTURE.md exist.
- The words in `PLAIN` are not used: each has a plainer one.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "klamm"
GENERATED: Final = SOURCE / "protocol" / "schema"
LIMIT: Final = 400
TEST_LIMIT: Final = 650
"""The most lines of a file in `tests`. Cases that share their set-up stay together."""
SLACK: Final = 20
"""A reason for a long file allows at most this many lines more than the file has."""
USERS: Final = ("src", "tests", "tools", "bench", "examples")
CONSTANT: Final = re.compile(r"[A-Z][A-Z0-9_]+")
PURE_ROOMS: Final = ("core", "insight")
CALLS: Final = frozenset({"breakpoint", "input", "open", "print"})
"""Functions of Python that need no import, and read or write."""
ENUM: Final = re.compile(r"\b(Int|Str)?(Enum|Flag)$")

MAP: Final = ROOT / "ARCHITECTURE.md"
ANSWERS: Final = "## Where is"
PATH: Final = re.compile(r"`((?:\w+/)*(?:\w+\.py|\w+/)|(?:\w+/)+\w+)`")

PLAIN: Final = {
    "anew": "again",
    "beside": "next to",
    "besides": "in addition (to)",
    "likewise": "also",
    "nobody": "no client, no broker, no test",
    "somebody": "a client, a broker, a test",
    "whoever": "any caller",
    "those there are": "what is listed: the topics, the groups",
}
"""Words that readers may not know, and what to write instead. Tests also have them as data, so they are not checked."""

ALLOWED: Final[dict[str, tuple[str, ...]]] = {"ARCHITECTURE.md": ("anew",)}
"""The documents and files that need such a word, and the word."""

SAME_MEANING: Final = {
    "cluster": "several brokers: what a client knows of them, and those that a test runs",
    "__init__": "a package",
    "callbacks": "what happens to a kind of group without a request",
    "command": "a noun of the command line",
    "coordinator_config": "the configuration of a coordinator, groups' and transactions'",
    "errors": "the errors that a room raises",
    "events": "what happened in groups, and in transactions",
    "expiry": "what a coordinator removes after a time, offsets and transactional ids",
    "fetch": "the API Fetch: its handler, its client",
    "group_description": "a group as its coordinator describes it: both kinds, and the client that asks",
    "group_state": "the states of a group, of each kind",
    "heartbeats": "what follows from a heartbeat, in each kind of group",
    "list_offsets": "the API ListOffsets: its handler, its client",
    "member": "a member of a group, of each kind",
    "offset_checks": "who may commit and fetch the offsets of a group, of each kind",
    "produce": "the API Produce: its codec, its handler, the verb of the command line",
    "shard": "a coordinator on one partition, groups' and transactions'",
    "timers": "the timers of a kind of group",
    "transaction_verification": "KIP-890: what a log remembers of it, and the request to the coordinator",
}
"""The names that more than one module has, and what they mean in all of them."""

LONG: Final = {
    "src/klamm/config/key_support.py": (545, "one table: a line or two for each key of Kafka"),
    "src/klamm/broker/network/client_connection.py": (515, "one state machine: reading, handling, writing take turns"),
    "src/klamm/storage/directory/log_directory.py": (440, "every change of a data directory, in one order"),
    "src/klamm/runtime/coordinator_runtime.py": (510, "one decision from request to answer, in one order"),
    "src/klamm/broker/handlers/produce.py": (490, "one API, whose fast path must not be cut in two"),
    "src/klamm/storage/segment/segment.py": (450, "one segment: its file and its three indexes change together"),
    "tools/generate_schema.py": (430, "one script that is called by its path: definitions, versions, classes, tables"),
}
"""The files that are longer than their limit: how long they may be, and why they are one file."""


def main() -> int:
    """Returns 1 if there is a breach, else 0."""
    breaches = list(all_breaches())
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


def all_breaches() -> Iterator[str]:
    """Yields the breaches of all rules."""
    yield from same_names()
    yield from long_files()
    yield from docstrings_without_verb()
    yield from broken_conventions()
    yield from input_and_output()
    yield from blanket_repeats()
    yield from outdated_paths()
    yield from outdated_names()
    yield from literary_words()


def same_names() -> Iterator[str]:
    """Yields a breach for each name that modules share without a reason, and for each reason without such modules."""
    paths = defaultdict(list)
    for path in modules():
        paths[path.stem].append(path.relative_to(ROOT).as_posix())
    for name, found in sorted(paths.items()):
        if len(found) > 1 and name not in SAME_MEANING:
            yield f"{len(found)} modules are named {name}: {', '.join(found)}. Rename them, or say in {_HERE} why"
    for name in SAME_MEANING:
        if len(paths[name]) < 2:
            yield f"no two modules are named {name} any more: remove it from {_HERE}"


def long_files() -> Iterator[str]:
    """Yields a breach for each file that is longer than its limit, and for each reason that is not needed."""
    files = [*modules(), *python_files(ROOT / "tests"), *python_files(ROOT / "tools")]
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in files}
    for name, length in sorted(lengths.items()):
        limit = LONG[name][0] if name in LONG else limit_of(name)
        if length > limit:
            yield f"{name} has {length} lines, more than {limit}: it answers two questions. Divide it"
    for name, (limit, _) in LONG.items():
        length = lengths.get(name, 0)
        if length <= limit_of(name):
            yield f"{name} has no more than {limit_of(name)} lines any more: remove it from {_HERE}"
        elif limit - length > SLACK:
            yield f"{name} has {length} lines, and {_HERE} allows {limit}: lower the number"


def limit_of(name: str) -> int:
    """Returns how many lines the file may have without a reason."""
    return TEST_LIMIT if name.startswith("tests/") else LIMIT


def docstrings_without_verb() -> Iterator[str]:
    """Yields a breach for each function whose docstring begins with another word than a verb in the third person."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_property(node):
                continue
            docstring = ast.get_docstring(node)
            if docstring and not re.match(r"[A-Z][a-z-]+s\b", docstring):
                place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
                yield f"{place}: {node.name} begins with {docstring.split()[0]!r}, not with a verb like 'Returns'"


def broken_conventions() -> Iterator[str]:
    """Yields each logger, member of an enum, and constant of a module whose name breaks the convention."""
    used = {path: used_names(path) for folder in USERS for path in python_files(ROOT / folder)}
    for module in modules():
        tree = ast.parse(module.read_text(encoding="utf-8"))
        where = module.relative_to(ROOT)
        for name, value in assignments(tree.body):
            if "getLogger(" in ast.unparse(value):
                if (name, ast.unparse(value)) != ("_logger", "logging.getLogger(__name__)"):
                    yield f"{where}: a logger is `_logger = logging.getLogger(__name__)`, not `{name}`"
            elif (
                CONSTANT.fullmatch(name)
                and "TypeVar(" not in ast.unparse(value)
                and not any(name in names for path, names in used.items() if path != module)
            ):
                yield f"{where}: no other module uses the constant {name}; it begins with an underscore"
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef) and any(ENUM.search(ast.unparse(base)) for base in each.bases):
                for name, _ in assignments(each.body):
                    if not name.startswith("_") and not name.isupper():
                        yield f"{where}: the member {name} of the enum {each.name} is upper case"


def input_and_output() -> Iterator[str]:
    """Yields each call of a function in `CALLS` in a room that decides or analyses."""
    for path in modules():
        if path.relative_to(SOURCE).parts[0] in PURE_ROOMS:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                    yield f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: this room calls no {node.func.id}()"


def blanket_repeats() -> Iterator[str]:
    """Yields a breach for each mark `flaky` without a reason and a link above it, or without the other program's error.

    Otherwise a failure of klamm would be tried again, too.
    """
    for path in python_files(ROOT / "tests"):
        source = path.read_text(encoding="utf-8")
        if "flaky" not in source:
            continue
        lines = source.splitlines()
        tree = ast.parse(source)
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr != "flaky":
                continue
            place = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
            call = calls.get(id(node))
            if call is None or not any(each.arg == "only_rerun" for each in call.keywords):
                yield f"{place}: a mark `flaky` names the other program's error in `only_rerun`"
            if "https://" not in comment_above(lines, node.lineno):
                yield f"{place}: a mark `flaky` has a comment above it, with the reason and a link"


def comment_above(lines: list[str], number: int) -> str:
    """Returns the last comment above a line, with at most three lines of the same statement between them."""
    index = number - 2
    while index > max(0, number - 5) and not lines[index].lstrip().startswith("#"):
        index -= 1
    comment = []
    while index >= 0 and lines[index].lstrip().startswith("#"):
        comment.append(lines[index])
        index -= 1
    return "\n".join(reversed(comment))


def outdated_paths() -> Iterator[str]:
    """Yields a breach for each file or folder that ARCHITECTURE.md names and that does not exist.

    A path is relative to the project or to the source. In the table of rooms and in the walks it may be shortened to
    its end: `classic/`, `planner.py`. In the answers to "Where is ...?" it is complete.
    """
    paths = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if "__pycache__" not in path.parts}
    ends = {"/".join(path.split("/")[start:]) for path in paths for start in range(path.count("/") + 1)}
    title = ""
    for number, line in enumerate(MAP.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            title = line
        for path in PATH.findall(line):
            known = paths if title.startswith(ANSWERS) else ends
            if path.rstrip("/") not in known and not (ROOT / path).exists():
                yield f"{MAP.name}:{number}: there is no {path}"


def outdated_names() -> Iterator[str]:
    """Yields a breach for each name in the answers to "Where is ...?" that no file of the same step defines."""
    _, _, answers = f"\n{MAP.read_text(encoding='utf-8')}".partition(f"\n{ANSWERS}")
    answers, _, _ = answers.partition("\n## ")
    for step in re.split(r"\n(?=\d+\. |#|\n)", answers):
        files = [SOURCE / path for path in PATH.findall(step) if path.endswith(".py")]
        defined = set[str]().union(*(defined_names(path) for path in files if path.exists()))
        for name in re.findall(r"`((?!__)[A-Za-z_]\w*)`", step):  # `__consumer_offsets` is a topic
            if files and name not in defined:
                yield f"{MAP.name}: no file of this step defines {name}: {' '.join(step.split())[:80]}"


def defined_names(path: Path) -> set[str]:
    """Returns the names of the functions, classes and variables that a module defines."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def literary_words() -> Iterator[str]:
    """Yields a breach for each word in code and documents for which `PLAIN` has a plainer one."""
    words = re.compile(rf"\b({'|'.join(PLAIN)})\b", re.IGNORECASE)
    for path in written_files():
        name = path.relative_to(ROOT).as_posix()
        if name == _HERE:
            continue
        text = path.read_text(encoding="utf-8")
        if not words.search(text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for word in words.findall(line):
                if word not in ALLOWED.get(name, ()):
                    yield f"{name}:{number}: instead of {word!r}, write {PLAIN[word.lower()]}"
    for name, allowed in ALLOWED.items():
        text = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).exists() else ""
        for word in allowed:
            if not re.search(rf"\b{word}\b", text):
                yield f"{name} does not have {word!r} any more: remove it from {_HERE}"


def written_files() -> Iterator[Path]:
    """Yields the Python files and documents of the project. Leaves out tests, the changelog, and what is built."""
    for folder in ("src", "tools", "bench", "examples", "docs"):
        for parent, folders, files in os.walk(ROOT / folder):
            folders[:] = [each for each in folders if not each.startswith((".", "_build"))]
            yield from (Path(parent, each) for each in sorted(files) if each.endswith((".py", ".md")))
    yield from (path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md")


def python_files(folder: Path) -> Iterator[Path]:
    """Yields the Python files of a folder, without those in hidden folders: environments and caches."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".")]
        yield from (Path(parent, each) for each in files if each.endswith(".py"))


def used_names(path: Path) -> set[str]:
    """Returns the names that a module takes from others: imported names, attributes, and names in short strings."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names.update(each.name for each in node.names)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yields name and value of each assignment to one name."""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, statement.value


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether callers read the function as an attribute."""
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in function.decorator_list}
    return bool(names & {"property", "cached_property"})


def modules() -> Iterator[Path]:
    """Yields the hand-written modules of klamm."""
    return (path for path in sorted(SOURCE.rglob("*.py")) if GENERATED not in path.parents)


_HERE: Final = Path(__file__).relative_to(ROOT).as_posix()


if __name__ == "__main__":
    sys.exit(main())
