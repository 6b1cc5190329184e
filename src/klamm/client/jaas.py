"""Parses `sasl.jaas.config`: one Java login module with its options, as text.

The form is that of `org.apache.kafka.common.security.JaasConfig`, which reads it with Java's StreamTokenizer:
`<login module class> <control flag> (<option>=<value>)* ;`. Errors quote no word of the text, since it holds
passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from klamm.client.errors import ClientConfigError

__all__ = ["LoginModule", "parse_jaas_config"]

_KEY: Final = "sasl.jaas.config"
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<word>[A-Za-z_$\x80-\U0010ffff][\w.$\-]*)
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<sign>[=;])
      | (?P<number>-?[\d.]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class LoginModule(NamedTuple):
    """A login module's class name and its options. Never show it: the options hold passwords."""

    class_name: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The class's name without its package, which differs in some distributions of Kafka's clients."""
        return self.class_name.rpartition(".")[2]


class _Token(NamedTuple):
    kind: str
    text: str


_END: Final = _Token("end", "")


def parse_jaas_config(text: str) -> LoginModule:
    """Returns the one login module of a JAAS configuration. Raises `ClientConfigError`, which quotes no value."""
    tokens = _tokens(text)
    class_name = next(tokens, _END)
    if class_name is _END:
        raise ClientConfigError(f"{_KEY}: no login module is named")
    if class_name.kind == "sign":
        raise ClientConfigError(f"{_KEY}: it begins with the class of a login module, not with {class_name.text!r}")
    flag = next(tokens, _END)
    if flag.text.lower() not in _CONTROL_FLAGS:
        raise ClientConfigError(f"{_KEY}: behind the login module stands one of {', '.join(_CONTROL_FLAGS)}")
    options = _options(tokens)
    if next(tokens, _END) is not _END:
        raise ClientConfigError(f"{_KEY}: it names more than one login module; there must be one")
    return LoginModule(class_name.text, options)


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    while (key := next(tokens, _END)) != _Token("sign", ";"):
        if key is _END:
            raise ClientConfigError(f"{_KEY}: it does not end with a semicolon")
        if key.kind == "sign":
            raise ClientConfigError(f"{_KEY}: the name of an option is missing before {key.text!r}")
        equals, value = next(tokens, _END), next(tokens, _END)
        if equals != _Token("sign", "=") or value.kind not in ("word", "string"):
            # Does not show the name: it may be part of a password without quotes.
            raise ClientConfigError(
                f'{_KEY}: option number {len(options) + 1} has no value; a value stands in double quotes: name="value"'
            )
        options[key.text] = value.text
    return options


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ClientConfigError(
                f"{_KEY}: what stands at character {position + 1} can't be read; a value stands in double quotes, and "
                "a double quote in it behind a backslash"
            )
        position = match.end()
        if match.lastgroup in ("double", "single"):
            yield _Token("string", _ESCAPE.sub(_unescape, match[match.lastgroup]))
        elif match.lastgroup is not None:
            yield _Token(match.lastgroup, match[match.lastgroup])


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
