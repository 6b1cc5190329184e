"""Tests that a marker survives as a committed offset, and that no other commit is taken for a marker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.committed_offsets import Commit
from klamm.protocol.types import Offset
from klamm.spark.sink.marker import Marker, group_of, transactional_id_of
from klamm.spark.sink.marker_errors import MarkerDamaged

KAFKAS_METADATA_LIMIT_BYTES = 4096
HASH = "0123456789abcdef" * 4
HASHES = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(batch_id=st.integers(0, 2**63 - 1), run_id=st.uuids().map(str) | st.just(""), offsets_hash=HASHES)
def test_what_is_committed_is_read_again(batch_id: int, run_id: str, offsets_hash: str) -> None:
    """A marker can be read back from its commit; the commit's offset is the micro-batch id, and the metadata fits
    Kafka's limit."""
    marker = Marker(batch_id, run_id, offsets_hash)
    commit = marker.to_commit()
    assert commit.offset == batch_id
    assert len(commit.metadata.encode()) < KAFKAS_METADATA_LIMIT_BYTES
    assert Marker.from_commit(commit) == marker


def test_without_a_commit_there_is_no_marker() -> None:
    """Without a commit there is no marker, as for the first micro-batch of a query or after the marker expired."""
    assert Marker.from_commit(None) is None


def test_the_encoding_stays() -> None:
    """The encoding of a marker does not change, so that later versions of klamm can read the markers of earlier
    versions."""
    assert Marker(12, "run", HASH).to_commit() == Commit(
        Offset(12), f'{{"klamm.sink":1,"batch":12,"run":"run","offsets":"{HASH}"}}'
    )


def fields(**changes: object) -> str:
    return json.dumps({"klamm.sink": 1, "batch": 12, "run": "run", "offsets": HASH, **changes})


@pytest.mark.parametrize(
    "metadata",
    [
        "",  # an offset that was set by a tool
        "a note",
        "[]",
        "12",
        "null",
        '{"batch":12}',
        fields(batch="12"),
        fields(batch=True),
        fields(batch=-1),
        fields(batch=13),  # only the offset was changed
        fields(run=None),
        fields(offsets=HASH[1:]),
        fields(offsets=HASH.upper()),
        fields(offsets=HASH + "\n"),
        fields(offsets=None),
        fields(**{"klamm.sink": 2}),
    ],
)
def test_another_commit_is_not_taken_for_a_marker(metadata: str) -> None:
    """A commit that is not a valid marker is an error, because the commit does not tell which micro-batches the
    topics have."""
    with pytest.raises(MarkerDamaged):
        Marker.from_commit(Commit(Offset(12), metadata))


def test_the_error_shows_what_is_there() -> None:
    """The error shows the offset and the metadata of the commit, so that a user can see who wrote the commit."""
    with pytest.raises(MarkerDamaged, match="offset 5 with the metadata 'reset by ops'"):
        Marker.from_commit(Commit(Offset(5), "reset by ops"))
    with pytest.raises(MarkerDamaged, match="version 2, and this klamm knows version 1"):
        Marker.from_commit(Commit(Offset(12), fields(**{"klamm.sink": 2})))


def test_group_and_transactional_id_have_one_prefix() -> None:
    """The group and the transactional id have the same prefix, so that one prefix suffices for the ACLs of both."""
    assert group_of("id") == transactional_id_of("id") == "klamm.sink.id"
