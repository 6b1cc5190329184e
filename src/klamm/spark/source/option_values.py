"""What the text of an option's value means: truth, numbers, one of some words. Raises `OptionError` with the option's
name in it, whatever is wrong."""

from __future__ import annotations

from typing import Final

from klamm.spark.source.errors import OptionError

__all__ = ["parse_positive", "parse_truth", "parse_word"]

_TRUTH: Final = {"true": True, "false": False}


def parse_truth(option: str, text: str) -> bool:
    """True or false, in any case."""
    if text.strip().lower() not in _TRUTH:
        raise OptionError(f"{option}={text}: it is true or false")
    return _TRUTH[text.strip().lower()]


def parse_positive(option: str, text: str) -> int:
    """A whole number above 0."""
    if not text.strip().isdecimal() or int(text) == 0:
        raise OptionError(f"{option}={text}: it is a positive whole number")
    return int(text)


def parse_word(option: str, text: str, *words: str) -> str:
    """One of these words, in any case."""
    word = text.strip().lower()
    if word not in words:
        raise OptionError(f"{option}={text}: it is {', '.join(words[:-1])} or {words[-1]}")
    return word
