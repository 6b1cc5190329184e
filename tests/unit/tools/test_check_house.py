from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "check_house.py"


@pytest.fixture
def house(tmp_path: Path) -> Any:
    """Returns the checks for a project of two packages with one module each and no exceptions."""
    tool = runpy.run_path(str(TOOL))
    rooms = tool["main"].__globals__
    rooms |= {"ROOT": tmp_path, "SOURCE": tmp_path, "MAP": tmp_path / "ARCHITECTURE.md"}
    rooms |= {"SAME_MEANING": {}, "LONG": {}, "ALLOWED": {}, "USERS": ["."]}
    (tmp_path / "ARCHITECTURE.md").write_text("")
    for path in ("broker/listener.py", "storage/segment.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text("")
    return SimpleNamespace(rooms=rooms, breaches=lambda: list(rooms["all_breaches"]()))


def test_an_orderly_house_has_no_breach(house: Any) -> None:
    assert house.breaches() == []


def test_two_modules_of_one_name_need_a_reason(house: Any, tmp_path: Path) -> None:
    """Two modules with the same name need a reason, and a reason needs two modules with that name."""
    (tmp_path / "broker" / "segment.py").write_text("")
    assert house.breaches()[0].startswith("2 modules are named segment: broker/segment.py, storage/segment.py.")
    house.rooms["SAME_MEANING"]["segment"] = "a segment"
    assert house.breaches() == []
    (tmp_path / "broker" / "segment.py").unlink()
    assert house.breaches()[0].startswith("no two modules are named segment any more")


def test_a_long_file_needs_a_reason_and_has_a_limit_even_so(house: Any, tmp_path: Path) -> None:
    """A long file needs a reason and still has a limit, and a reason needs a long file."""
    path = tmp_path / "storage" / "segment.py"
    path.write_text("pass\n" * 401)
    assert house.breaches() == ["storage/segment.py has 401 lines, more than 400: it answers two questions. Divide it"]
    house.rooms["LONG"]["storage/segment.py"] = (430, "a table")
    assert house.breaches() == [
        "storage/segment.py has 401 lines, and tools/check_house.py allows 430: lower the number"
    ]
    house.rooms["LONG"]["storage/segment.py"] = (410, "a table")
    assert house.breaches() == []
    path.write_text("pass\n" * 411)
    assert house.breaches()[0].startswith("storage/segment.py has 411 lines, more than 410")
    path.write_text("")
    assert house.breaches()[0].startswith("storage/segment.py has no more than 400 lines any more")


def test_files_of_tests_and_tools_have_a_limit_as_well(house: Any, tmp_path: Path) -> None:
    """A file of `tests` may have 650 lines, a file of `tools` 400."""
    for folder, limit in (("tests", 650), ("tools", 400)):
        path = tmp_path / folder / "test_segment.py"
        path.parent.mkdir()
        path.write_text("pass\n" * limit)
        assert house.breaches() == []
        path.write_text("pass\n" * (limit + 1))
        assert house.breaches()[0].startswith(f"{folder}/test_segment.py has {limit + 1} lines, more than {limit}")
        path.unlink()


@pytest.mark.parametrize(
    ("source", "is_breach"),
    [
        ('def ends() -> int:\n    """The ends."""\n', True),
        ('async def ends() -> int:\n    """Return the ends."""\n', True),
        ('def ends() -> int:\n    """Returns the ends."""\n', False),
        ("def ends() -> int:\n    return 1\n", False),
        ('class Log:\n    """The log."""\n    @property\n    def ends(self) -> int:\n        """The ends."""\n', False),
    ],
)
def test_the_docstring_of_a_function_begins_with_a_verb(
    house: Any, tmp_path: Path, source: str, is_breach: bool
) -> None:
    """The docstring of a function begins with a verb in the third person; a property or class has a noun phrase."""
    (tmp_path / "storage" / "segment.py").write_text(source)
    assert bool(house.breaches()) == is_breach


@pytest.mark.parametrize(
    ("source", "breach"),
    [
        ("_log = logging.getLogger(__name__)\n", "not `_log`"),
        ('_logger = logging.getLogger("klamm")\n', "not `_logger`"),
        ("_logger = logging.getLogger(__name__)\n", None),
        ("class Kind(StrEnum):\n    segment = 'segment'\n", "the member segment of the enum Kind"),
        ("class Kind(enum.IntEnum):\n    SEGMENT = 1\n", None),
        ("LIMIT: Final = 4\n", "the constant LIMIT"),
        ("_LIMIT: Final = 4\n", None),
        ('T = TypeVar("T")\n', None),
    ],
)
def test_names_follow_the_conventions(house: Any, tmp_path: Path, source: str, breach: str | None) -> None:
    """Loggers, enum members and module constants have one form each."""
    (tmp_path / "broker" / "listener.py").write_text(source)
    breaches = house.breaches()
    assert len(breaches) == (breach is not None)
    assert breach is None or breach in breaches[0]


def test_a_constant_that_another_module_uses_is_public(house: Any, tmp_path: Path) -> None:
    """A public constant is accepted if another module uses it: by import, as an attribute, or by name in a string for
    `monkeypatch.setattr`."""
    (tmp_path / "broker" / "listener.py").write_text("LIMIT: Final = 4\n")
    for use in ("from broker.listener import LIMIT\n", "listener.LIMIT\n", 'patch(listener, "LIMIT", 2)\n'):
        (tmp_path / "storage" / "segment.py").write_text(use)
        assert house.breaches() == []


@pytest.mark.parametrize(("room", "is_breach"), [("core", True), ("insight", True), ("cli", False)])
def test_rooms_that_decide_do_not_print(house: Any, tmp_path: Path, room: str, is_breach: bool) -> None:
    """A call of `print` is a breach in `core` and `insight`, and not in the room of commands."""
    (tmp_path / room).mkdir()
    (tmp_path / room / "rules.py").write_text("def decide() -> None:\n    print('yes')\n")
    assert house.breaches() == ([f"{room}/rules.py:2: this room calls no print()"] if is_breach else [])


_REASON = "# Another program fails at times: https://example.org/issue\n"


@pytest.mark.parametrize(
    ("source", "breach"),
    [
        (_REASON + '@pytest.mark.flaky(reruns=2, only_rerun="its error")\ndef test() -> None: ...\n', None),
        (_REASON + 'pytestmark = [\n    pytest.mark.flaky(only_rerun="its error"),\n]\n', None),
        (_REASON + "@pytest.mark.flaky(reruns=2)\ndef test() -> None: ...\n", "names the other program's error"),
        (_REASON + "@pytest.mark.flaky\ndef test() -> None: ...\n", "names the other program's error"),
        ('mark = pytest.mark.flaky(only_rerun="its error")\n', "with the reason and a link"),
        ('# Fails at times.\nmark = pytest.mark.flaky(only_rerun="its error")\n', "with the reason and a link"),
    ],
)
def test_a_repeated_test_names_the_error_of_another_program(
    house: Any, tmp_path: Path, source: str, breach: str | None
) -> None:
    """A mark `flaky` needs the other program's error, and a comment with the reason and a link."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_segment.py").write_text("import pytest\n\n" + source)
    breaches = house.breaches()
    assert len(breaches) == (breach is not None)
    assert breach is None or breach in breaches[0]


@pytest.mark.parametrize(
    ("text", "breach"),
    [
        ("| `storage/` | files |\n`segment.py` reads.\n", None),
        ("| `network/` | connections |\n", "there is no network/"),
        ("`storage/index.py` reads.\n", "there is no storage/index.py"),
        ("## Where is a segment?\n\n1. `read` in `storage/segment.py` reads.\n", None),
        ("## Where is a segment?\n\n1. It reads `segment.py`.\n", "there is no segment.py"),
        ("## Where is a segment?\n\n1. `write` in `storage/segment.py` writes.\n", "defines write"),
        ("## Where is a segment?\n\n1. `storage/segment.py`\n2. `read` in `broker/listener.py`.\n", "defines read"),
    ],
)
def test_files_and_names_of_the_map_exist(house: Any, tmp_path: Path, text: str, breach: str | None) -> None:
    """Each path in ARCHITECTURE.md exists, and a file of the same step defines each name of an answer."""
    (tmp_path / "storage" / "segment.py").write_text("def read() -> None: ...\n")
    (tmp_path / "ARCHITECTURE.md").write_text(text)
    breaches = house.breaches()
    assert len(breaches) == (breach is not None)
    assert breach is None or breach in breaches[0]


def test_a_word_with_a_plainer_one_is_a_breach(house: Any, tmp_path: Path) -> None:
    """A document must not have a word of the list, unless an exception names it; an exception needs the word."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("A start.\nIt begins anew.\n")
    assert house.breaches() == ["docs/page.md:2: instead of 'anew', write again"]
    house.rooms["ALLOWED"]["docs/page.md"] = ("anew",)
    assert house.breaches() == []
    page.write_text("It begins again.\n")
    assert house.breaches()[0].startswith("docs/page.md does not have 'anew' any more")
