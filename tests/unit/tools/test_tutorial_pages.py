"""Tests how the tests of the documentation read a page and compare outputs."""

from __future__ import annotations

from pathlib import Path

from tests.support.tutorial_output import differs, tidy
from tests.support.tutorial_page import Command, Edit, File, read_page

PAGE = """
Save this as `flows.py`:

```python
a = 1
b = 2
```

<!-- leaves running -->
```console
$ klamm serve
ready 127.0.0.1:9092
```

Correct `flows.py`:

```diff
-b = 2
+b = 3
```

<!-- varies: LAG, WATERMARK=2013\\S+ -->
```console
$ klamm status \\
    flows.py
FLOW  LAG
a       1
$ true
```
"""

TABLE = "FLOW  LAG  PID\na       1   12\nprocess 12 on vm is gone\n"


def test_a_page_is_files_edits_and_commands(tmp_path: Path) -> None:
    """The steps are in the order of the page, with the line of each command."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    file, serve, edit, status, nothing = read_page(page)

    assert file == File("flows.py", "a = 1\nb = 2\n")
    assert edit == Edit("flows.py", "b = 2\n", "b = 3\n")
    assert serve == Command(11, "klamm serve", "ready 127.0.0.1:9092\n", leaves_running=True)
    assert isinstance(status, Command)
    assert (status.text, status.output) == ("klamm status \\\n    flows.py", "FLOW  LAG\na       1\n")
    assert status.varying == {"LAG": ".*", "WATERMARK": r"2013\S+"}
    assert isinstance(nothing, Command)
    assert (nothing.text, nothing.output, PAGE.splitlines()[nothing.line - 1]) == ("true", "", "$ true")

    assert isinstance(file, File)
    file.apply(tmp_path)
    assert isinstance(edit, Edit)
    edit.apply(tmp_path)
    assert (tmp_path / "flows.py").read_text() == "a = 1\nb = 3\n"


def test_outputs_are_equal_but_for_what_differs_each_time() -> None:
    """Widths of columns, process ids and rates may differ, and the process id of a run is noted. Figures may not."""
    names: dict[str, str] = {}
    assert not differs(TABLE, "FLOW  LAG   PID\na       1  4711\nprocess 4711 on here is gone\n", {}, names)
    assert names == {"12": "4711"}
    assert differs(TABLE, TABLE.replace("1   12", "2   12"), {}, names)
    assert not differs(TABLE, TABLE.replace("1   12", "2   12"), {"LAG": r"\d"}, names)
    assert differs(TABLE, TABLE.replace("1   12", "x   12"), {"LAG": r"\d"}, names)
    assert differs(TABLE, TABLE + "more\n", {}, names)
    assert differs(TABLE, "", {}, names)


def test_a_line_of_a_screen_is_compared_without_its_rate() -> None:
    """Escape sequences of a terminal and rates do not count."""
    assert tidy("\x1b[2Ka: running, 1,204 records/s, lag 0") == tidy("a: running, 3 records/s, lag 0")
    assert tidy("a: running, lag 0") != tidy("a: running, lag 1")
