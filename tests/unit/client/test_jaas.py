"""Tests that `sasl.jaas.config` is read as in Kafka, and that errors never show a part of it."""

from __future__ import annotations

import pytest

from klamm.client.errors import ClientConfigError
from klamm.client.jaas import LoginModule, parse_jaas_config

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="alice" password="secret"', {"username": "alice", "password": "secret"}),
        ("username=alice password='se\"cret'", {"username": "alice", "password": 'se"cret'}),
        (r'password="a\"b\\c\td\101\7"', {"password": 'a"b\\c\tdA\x07'}),
        ('password = "= ; // # /* no comment */"', {"password": "= ; // # /* no comment */"}),
        ('// a comment ; "\n username /* another\n one */ = "alice"', {"username": "alice"}),
        ("user.name-of$me_1=ä", {"user.name-of$me_1": "ä"}),
        ("", {}),
    ],
)
def test_options_are_read(options: str, expected: dict[str, str]) -> None:
    """Values are quoted with either kind of quotes or are single words; escapes, comments and blanks follow Java."""
    assert parse_jaas_config(f"\n {SCRAM}  Required\n{options};\n") == LoginModule(SCRAM, expected)


def test_the_package_is_left_out_of_the_name() -> None:
    """The package of the login module is ignored, because some distributions move Kafka's clients to another
    package."""
    moved = parse_jaas_config(f"shaded.{SCRAM} required;")

    assert moved.name == "ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no login module"),
        (" // nothing", "no login module"),
        ("= required;", "begins with the class"),
        (f"{SCRAM}", "one of required"),
        (f'{SCRAM} hunter2 password="x";', "one of required"),
        (f'{SCRAM} required password="hunter2"', "does not end with a semicolon"),
        (f"{SCRAM} required password=2hunter2;", "option number 1 has no value"),
        (f"{SCRAM} required password=hunter2", "does not end with a semicolon"),
        (f"{SCRAM} required hunter2;", "option number 1 has no value"),
        (f"{SCRAM} required password=;", "option number 1 has no value"),
        (f'{SCRAM} required username="a" password="x" hunter2";', "can't be read"),
        (f'{SCRAM} required password="hunter2;', "can't be read"),
        (f'{SCRAM} required password="a\nhunter2";', "can't be read"),
        (f'{SCRAM} required ="hunter2";', "name of an option is missing"),
        (f'{SCRAM} required password="hunter2"; {SCRAM} required;', "more than one login module"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(text: str, message: str) -> None:
    """An error never repeats the text, because even a wrong name may be part of a password."""
    with pytest.raises(ClientConfigError, match=message) as error:
        parse_jaas_config(text)
    assert str(error.value).startswith("sasl.jaas.config")
    assert "hunter2" not in str(error.value)
