r"""The cost of compiling a regular expression, estimated before it is compiled.

Matching takes time linear in a topic's name, but compiling is not linear in the expression: `\pL{1000}` has nine
characters and a quarter of a million instructions. RE2 gives up when its memory is used up, which is too late for an
event loop. The estimate reads the text once and never falls far short of the real cost. It may be wrong for an invalid
expression, since RE2 refuses that.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MAX_REGEX_COST", "regex_cost"]

MAX_REGEX_COST: Final = 10_000
"""Upper limit; one unit is about half a microsecond. A list of three hundred topic names is below it."""

_CHARACTER: Final = 1
_FOLDED: Final = 3
"""A character that also matches its other cases."""
_WIDE: Final = 5
"""A character outside of ASCII, or a dot: several bytes, or several encodings."""
_OPERATOR: Final = 2
_OPTIONAL: Final = 5
"""A branch around an optional part."""
_CLASS: Final = 12
_UNICODE_CLASS: Final = 1_000
"""A script or a category of Unicode: hundreds of ranges."""

_TOKEN: Final = re.compile(
    r"""
    (?P<unicode>  \\[pP](?:\{[^}]*\}?|.)? )
  | (?P<quoted>   \\Q(?:(?!\\E).)*(?:\\E)? )
  | (?P<escape>   \\(?:x\{[^}]*\}?|.)? )
  | (?P<class>    \[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*\]? )
  | (?P<open>     \((?:\?(?:P?<\w*>|[a-zA-Z-]*:?))? )
  | (?P<close>    \) )
  | (?P<repeat>   \{(?P<least>\d+)(?:,(?P<most>\d*))?\} )
  | (?P<operator> [*+?|^$] )
  | (?P<dot>      \. )
  | (?P<plain>    [^\\\[(){*+?|^$.]+ )
  | (?P<brace>    \{ )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNICODE_IN_CLASS: Final = re.compile(r"\\[pP]")
_FOLDS: Final = re.compile(r"\(\?[a-zA-Z]*i")


def regex_cost(regex: str) -> int:
    """Returns the estimate; a value above `MAX_REGEX_COST` says only that the cost is above it."""
    if len(regex) > MAX_REGEX_COST:
        return len(regex)
    plain = _FOLDED if _FOLDS.search(regex) is not None else _CHARACTER
    outer: list[int] = []
    around = total = last = 0
    for token in _TOKEN.finditer(regex):
        kind = token.lastgroup
        if kind == "open":
            outer.append(total)
            around += total
            total = last = _OPERATOR
        elif kind == "close":
            last = total
            if outer:
                around -= outer[-1]
                total += outer.pop()
        elif kind == "repeat":
            # The part before it is compiled that many times.
            least = int(token["least"][:5])
            most = max(1, least + 1, int((token["most"] or "0")[:5]))
            repeated = last * most + _OPTIONAL * (most - least)
            total += repeated - last
            last = repeated
        else:
            cost, last = _cost_of(kind, token.group(), plain)
            total += cost
        if total + around > MAX_REGEX_COST:
            break
    return total + around


def _cost_of(kind: str | None, text: str, plain: int) -> tuple[int, int]:
    """Returns the cost of a token, and the cost of its last atom."""
    if kind in {"plain", "quoted"}:
        last = plain if text.isascii() else _WIDE
        return last * len(text), last
    if kind == "unicode":
        cost = _UNICODE_CLASS
    elif kind == "class":
        characters = plain if text.isascii() and "x{" not in text else _WIDE
        cost = _CLASS + characters * len(text) + _UNICODE_CLASS * len(_UNICODE_IN_CLASS.findall(text))
    elif kind == "operator":
        cost = _OPTIONAL if text == "?" else _OPERATOR
    else:
        cost = _WIDE
    return cost, cost
