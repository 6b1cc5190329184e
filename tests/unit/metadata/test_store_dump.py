"""Tests the text form of a metadata store's content."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.metadata.metadata_store import Commit, Versioned
from klamm.metadata.store_dump import InvalidDump, dump_lines, parse_dump


def lines_of(entries: dict[str, bytes]) -> list[str]:
    """Returns the dump of these entries."""
    content = Commit(9, {key: Versioned(value, 3, 7) for key, value in entries.items()})
    return list(dump_lines(content, "etcd cluster f3, prefix test"))


def test_values_are_readable() -> None:
    """A line has the decoded value, and the bytes only if the value does not give them again."""
    header, cluster, topic = (json.loads(line) for line in lines_of({"cluster": b'{"id":"x"}', "t": b'{ "a": 1}'}))
    assert header["cluster"] == "x"
    assert header["keys"] == 2
    assert header["revision"] == 9
    assert cluster == {"key": "cluster", "value": {"id": "x"}, "create": 3, "modified": 7}
    assert topic["value"] == {"a": 1}
    assert "base64" in topic


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda each: st.dictionaries(st.text(), each)
)
_values = st.binary() | _json.map(lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


@given(st.dictionaries(st.text(min_size=1), _values))
def test_every_byte_is_restored(entries: dict[str, bytes]) -> None:
    """Whatever the bytes of the values are, parsing the dump gives them again."""
    dump = parse_dump(lines_of(entries))
    assert dump.entries == entries
    assert dump.revision == 9
    assert dump.source == "etcd cluster f3, prefix test"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: [], "line 1 is not JSON"),
        (lambda lines: lines[1:], "not the beginning of a dump"),
        (lambda lines: lines[:-1], "has 1 of 2 keys: a part of it is missing"),
        (lambda lines: [*lines, lines[-1]], "line 4 has no key, or a key for the second time"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]], "the dump has version 2"),
        (lambda lines: [*lines[:2], '{"key":"t"}'], "line 3 has no value"),
        (lambda lines: [*lines[:2], '{"key":"t","base64":"?"}'], "line 3 has no value"),
        (lambda lines: [*lines[:2], '{"key":'], "line 3 is not JSON"),
    ],
)
def test_other_texts_are_refused(change: object, reason: str) -> None:
    """A part of a dump, or a dump that was changed, is not restored."""
    assert callable(change)
    with pytest.raises(InvalidDump, match=reason):
        parse_dump(change(lines_of({"cluster": b"{}", "t": b"{}"})))
