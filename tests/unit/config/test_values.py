from __future__ import annotations

import pytest

from klamm.config.errors import InvalidValue
from klamm.config.values import Value, check_value, parse_value, value_text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BOOLEAN", " TRUE ", True),
        ("BOOLEAN", "false", False),
        ("INT", " +7 ", 7),
        ("INT", "-2147483648", -(2**31)),
        ("LONG", "9223372036854775807", 2**63 - 1),
        ("SHORT", "32767", 32767),
        ("DOUBLE", "1e-2", 0.01),
        ("DOUBLE", ".5d", 0.5),
        ("LIST", "", ()),
        ("LIST", "a , b,\tc", ("a", "b", "c")),
        ("LIST", "a,b,a", ("a", "b")),
        ("LIST", "a,", ("a", "")),
        ("STRING", "  x y ", "x y"),
        ("PASSWORD", "p", "p"),
        ("CLASS", "org.example.Some", "org.example.Some"),
    ],
)
def test_texts_are_read_as_java_reads_them(kind: str, text: str, value: Value) -> None:
    """A text becomes the value that Kafka's ConfigDef gives."""
    assert parse_value("k", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("BOOLEAN", "yes", "Expected value to be either true or false"),
        ("INT", "2147483648", "Not a number of type INT"),
        ("INT", "1_000", "Not a number of type INT"),
        ("INT", "", "Not a number of type INT"),
        ("INT", "9" * 100_000, "Not a number of type INT"),
        ("SHORT", "32768", "Not a number of type SHORT"),
        ("LONG", "1.0", "Not a number of type LONG"),
        ("DOUBLE", "inf", "Not a number of type DOUBLE"),
        ("DOUBLE", "1_0.5", "Not a number of type DOUBLE"),
    ],
)
def test_what_java_would_not_read_is_refused_in_kafkas_words(kind: str, text: str, reason: str) -> None:
    """A text that Java can't parse is refused with the message of Kafka's ConfigException."""
    with pytest.raises(InvalidValue) as refusal:
        parse_value("some.key", text, kind)
    assert str(refusal.value) == f"Invalid value {text} for configuration some.key: {reason}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (12, "12"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (1234567.25, "1234567.25"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1e7, "1.0E7"),
        (123456789.5, "1.234567895E8"),
        (-1.5e-5, "-1.5E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_shown_as_java_shows_them(value: Value, text: str | None) -> None:
    """Values are formatted as in Java, including doubles, which get a mantissa and E outside of 0.001 to 10,000,000."""
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (["range", 1, None], 0, "Invalid value 0 for configuration k: Value must be at least 1"),
        (["range", 0, 1], 1.5, "Invalid value 1.5 for configuration k: Value must be no more than 1"),
        (["range", 0, None], None, "Invalid value null for configuration k: Value must be non-null"),
        (["one_of", ["a", "b"]], "A", "Invalid value A for configuration k: String must be one of: a, b"),
        (
            ["one_of_ignoring_case", ["A", "B"]],
            "c",
            "Invalid value c for configuration k: String must be one of (case insensitive): A, B",
        ),
        (["list_of", ["a"], True, False], ("b",), "Invalid value b for configuration k: String must be one of: a"),
        (
            ["list_of", [], False, True],
            (),
            "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        ),
        (["list_of", ["a"], False, True], (), "Configuration 'k' must not be empty. Valid values include: [a]"),
        (["list_of", [], True, False], None, "Configuration 'k' values must not be null."),
        (["list_of", [], True, False], ("a", ""), "Configuration 'k' values must not be empty."),
        (["non_empty"], "", "Invalid value  for configuration k: String must be non-empty"),
        (["non_null"], None, "Invalid value null for configuration k: entry must be non null"),
        (
            ["gzip_level"],
            10,
            "Invalid value 10 for configuration k: Value must be between 1 and 9 or equal to -1",
        ),
        (
            ["code", "ThrottledReplicaListValidator"],
            ("1:2", "x"),
            "Invalid value [1:2, x] for configuration k: k must be the literal '*' or a list of replicas in the "
            "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            ["code", "ShareGroupAutoOffsetResetStrategy$Validator"],
            "by_duration:-PT1H",
            "Invalid value by_duration:-PT1H for configuration k: Invalid value `by_duration:-PT1H` for configuration "
            "k. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
    ],
)
def test_a_value_outside_of_its_range_is_refused_in_kafkas_words(
    check: list[object], value: Value, message: str
) -> None:
    """A value that fails a validator is refused with the message of Kafka's validator."""
    with pytest.raises(InvalidValue) as refusal:
        check_value("k", value, check)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (["range", 1, None], 1),
        (["range", None, 5], 5),
        (["one_of", ["a"]], "a"),
        (["one_of_ignoring_case", ["UPGRADE"]], "Upgrade"),
        (["list_of", [], True, True], None),
        (["list_of", ["a"], True, False], ()),
        (["non_empty"], None),
        (["gzip_level"], -1),
        (["code", "ThrottledReplicaListValidator"], ("*",)),
        (["code", "ThrottledReplicaListValidator"], ("1:101", "2:102")),
        (["code", "ShareGroupAutoOffsetResetStrategy$Validator"], "by_duration:P1DT2H3M4.5S"),
        (["code", "ShareGroupAutoOffsetResetStrategy$Validator"], "EARLIEST"),
    ],
)
def test_a_value_within_its_range_is_taken(check: list[object], value: Value) -> None:
    """A value within its range is accepted; bounds are inclusive, and null or empty is accepted where Kafka allows
    it."""
    check_value("k", value, check)
