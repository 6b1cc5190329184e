"""Tests which metadata store a data directory accepts."""

from __future__ import annotations

import pytest

from klamm.metadata.store_identity import (
    StoreCommit,
    StoreIdentity,
    WrongStore,
    check_commit,
    check_creation,
    check_identity,
)

LATEST = StoreCommit.of("topics/orders", b"value", 16)
KNOWN = StoreIdentity("f39c", "klamm", 17, LATEST)


@pytest.mark.parametrize("known", [None, KNOWN, KNOWN._replace(revision=3)])
def test_the_same_store_is_accepted(known: StoreIdentity | None) -> None:
    """A new directory accepts every store; others accept their own store at the same or a later revision."""
    check_identity(known, KNOWN)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (KNOWN._replace(cluster_id="a1"), "has used the etcd cluster f39c"),
        (KNOWN._replace(prefix="other"), "has used the prefix 'klamm'"),
        (KNOWN._replace(revision=16), "is at revision 16, and the data directory has seen revision 17"),
    ],
)
def test_another_store_is_refused(found: StoreIdentity, reason: str) -> None:
    """Another cluster, another prefix or a lower revision is refused."""
    with pytest.raises(WrongStore, match=reason):
        check_identity(KNOWN, found)


def test_store_that_was_filled_after_its_use_is_refused() -> None:
    """A restore gives the prefix a younger cluster than the one that the directory has seen."""
    check_creation(None, 20)
    check_creation(KNOWN, 17)
    check_creation(KNOWN, 0)
    with pytest.raises(WrongStore, match="was filled at revision 18, after the data directory has seen revision 17"):
        check_creation(KNOWN, 18)


@pytest.mark.parametrize(
    "found", [None, StoreCommit.of("topics/orders", b"other", 16), StoreCommit.of("topics/orders", b"value", 9)]
)
def test_a_store_with_another_history_is_refused(found: StoreCommit | None) -> None:
    """A restored store has written something else since the backup: at the known revision the key is not there, has
    another value, or an older one."""
    with pytest.raises(WrongStore, match="had another value of 'topics/orders' at revision 16"):
        check_commit(KNOWN, found)


def test_the_same_history_is_accepted() -> None:
    """The transaction is in the store. A directory of an earlier release has recorded none."""
    check_commit(KNOWN, LATEST)
    check_commit(KNOWN._replace(latest=None), None)
