from __future__ import annotations

import pytest

from klamm.config.errors import ConfigurationError
from klamm.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("  a=b=c", {"a": "b=c"}),
        ("a\\ b\\:c=d", {"a b:c": "d"}),
        ("# a=1\n! b=2\n\n  # c=3\nd=4", {"d": "4"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("a=x\\\n# no comment", {"a": "x# no comment"}),
        ("a=\\t\\n\\u00e4\\q", {"a": "\t\n\u00e4q"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("path=C:\\\\kafka", {"path": "C:\\kafka"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, entries: dict[str, str]) -> None:
    """A file is parsed like java.util.Properties: separators, escapes, comments and continued lines."""
    assert {key: entry.value for key, entry in parse_properties(text).items()} == entries


def test_an_entry_knows_the_line_it_begins_on() -> None:
    """A continued entry has the number of its first line, so that a message can refer to the line."""
    entries = parse_properties("# comment\na=1,\\\n2\nb=3")
    assert (entries["a"].line, entries["b"].line) == (2, 4)


def test_a_broken_escape_is_refused_with_its_line() -> None:
    """A broken escape is refused with its line; Java refuses the file as well."""
    with pytest.raises(ConfigurationError, match="four hexadecimal digits") as refusal:
        parse_properties("a=1\nb=\\u12g4")
    assert str(refusal.value).startswith("line 2: ")
