"""Tests which metadata store a data directory accepts."""

from __future__ import annotations

import pytest

from klamm.metadata.store_identity import StoreIdentity, WrongStore, check_creation, check_identity

KNOWN = StoreIdentity("f39c", "klamm", 17)


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
