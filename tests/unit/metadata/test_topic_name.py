"""Tests the legal names of topics, and the reasons for illegal names."""

from __future__ import annotations

import pytest

from klamm.metadata.topic_name import collision_key, is_internal, why_invalid


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "...", "-", "x" * 249, "__consumer_offsets"])
def test_legal_names_are_accepted(name: str) -> None:
    """A legal name has up to 249 ASCII letters, digits, '.', '_' and '-'."""
    assert why_invalid(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        (".", "Topic name is invalid: '.' is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        (
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (
            "a b",
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
    ],
)
def test_illegal_names_are_refused_in_kafkas_words(name: str, reason: str) -> None:
    """An illegal name is refused with the reason of Kafka's `Topic.validate`."""
    assert why_invalid(name) == reason


@pytest.mark.parametrize("name", ["ä", "a/b", "a\n", "a\x00", "\uff11"])
def test_no_name_leads_out_of_the_data_directory_or_beyond_ascii(name: str) -> None:
    """A name with a path separator, a control character or a character outside of ASCII is illegal, because it
    becomes a folder's name."""
    assert why_invalid(name) is not None


def test_a_dot_and_an_underscore_collide() -> None:
    """Two names collide if they differ only in dots and underscores."""
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")


def test_kafkas_own_topics_are_internal() -> None:
    """Kafka's own topics are internal by their name, regardless of their creator."""
    assert is_internal("__consumer_offsets")
    assert not is_internal("__mine")
