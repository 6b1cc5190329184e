"""Why a value is no JSON object of a schema: a second look, which only bad records pay for.

Spark's `from_json` says only that a record is corrupt. The reason parses the value again with every field as text,
which accepts any JSON object, and names the fields that have a text there but no value of their own type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StringType, StructField, StructType

__all__ = ["WRAPPED", "json_reason", "parse_wrapped"]

WRAPPED: Final = "w"
"""The field of a parsed struct that holds the value."""
_CORRUPT: Final = "c"
"""The field of a parsed struct that is not null if the value is corrupt."""
_END: Final = "e"
"""The field behind the value; null if the value has ended the struct itself, and has more bytes."""

_FIELDS: Final = 200
"""The number of fields that are looked at; the expression grows with each of them."""
_SHOWN: Final = 40
_LONGEST: Final = 500

_BEGINNINGS: Final = {"[": "a JSON array", '"': "a JSON string", "t": "a boolean", "f": "a boolean", "n": "null"}


def parse_wrapped(text: Column, data_type: DataType, options: Mapping[str, str]) -> Column:
    """Returns a struct of the value, of type `data_type`, of the text of a corrupt record, and of a mark that nothing
    comes after the value; never null."""
    wrapped = F.concat(F.lit(f'{{"{WRAPPED}":'), text, F.lit(f',"{_END}":true}}'))
    schema = StructType(
        [StructField(WRAPPED, data_type), StructField(_CORRUPT, StringType()), StructField(_END, BooleanType())]
    )
    own = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(wrapped, schema, {**options, **own})


def json_reason(value: Column, parsed: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    """Returns why the value is bad; null if it is good, or null itself.

    `parsed` is what `parse_wrapped` makes of the value and of the nullable `schema`; null if the value is no UTF-8.
    """
    text = value.cast("string")
    missing = list(_missing_fields(parsed[WRAPPED], schema))
    good = F.coalesce(*missing) if missing else F.lit(None).cast("string")
    return (
        F.when(value.isNull(), F.lit(None))
        .when(parsed.isNull(), F.lit("the value is not UTF-8 text"))
        .when(_is_corrupt(parsed), _corrupt_reason(text, parsed[WRAPPED], schema, options))
        .when(parsed[WRAPPED].isNull(), F.lit("the value is null, not a JSON object"))
        .otherwise(good)
    )


def _is_corrupt(parsed: Column) -> Column:
    return parsed[_CORRUPT].isNotNull() | parsed[_END].isNull()


def _corrupt_reason(text: Column, found: Column, schema: StructType, options: Mapping[str, str]) -> Column:
    def of_fields(texts: Column) -> Column:
        fields = list(_wrong_fields(found, texts[WRAPPED], schema, "", options))[:_FIELDS]
        wrong = F.left(F.concat_ws("; ", *fields), F.lit(_LONGEST))
        return (
            F.when(
                texts[_CORRUPT].isNotNull(), F.concat(F.lit("the value is "), _kind(text), F.lit(", not a JSON object"))
            )
            .when(wrong != "", wrong)
            .otherwise(F.lit("a field is of another type than in the schema"))
        )

    as_text = parse_wrapped(text, StringType(), options)
    return F.when(_is_corrupt(as_text), F.lit("the value is not JSON")).otherwise(
        _with(parse_wrapped(text, _of_texts(schema), options), of_fields)
    )


def _with(value: Column, use: Callable[[Column], Column]) -> Column:
    """Returns `use(value)`, with the value computed once however often `use` has it.

    Spark computes an expression again at each place where it stands, if that place is in a branch of a condition.
    """
    return F.transform(F.array(value), use)[0]


def _kind(text: Column) -> Column:
    """Returns what kind of JSON the text is, by its first character."""
    first = F.substring(F.ltrim(text), 1, 1)
    return reduce(
        lambda chain, kind: chain.when(first == kind[0], F.lit(kind[1])), _BEGINNINGS.items(), F.when(F.lit(False), "")
    ).otherwise(F.lit("a number"))


def _of_texts(schema: StructType) -> StructType:
    return StructType([StructField(field.name, StringType()) for field in schema.fields])


def _wrong_fields(
    found: Column, texts: Column, schema: StructType, path: str, options: Mapping[str, str]
) -> Iterator[Column]:
    """Yields for each field an expression that names the field if its text is not of its type; else null."""
    for field in schema.fields:
        text, value, name = texts.getField(field.name), found.getField(field.name), path + field.name
        data_type = field.dataType
        is_wrong = value.isNull()
        if isinstance(data_type, StringType):
            continue  # any JSON value is a string for Spark
        if isinstance(data_type, StructType):
            yield F.when(text.isNotNull() & value.isNotNull(), _wrong_inside(text, value, field, f"{name}.", options))
        elif isinstance(data_type, ArrayType | MapType):
            # An element of another type leaves an array of structs with a null in it.
            is_wrong = is_wrong | parse_wrapped(text, data_type, options)[_CORRUPT].isNotNull()
        shown = F.when(F.length(text) > _SHOWN, F.concat(F.left(text, F.lit(_SHOWN)), F.lit("…"))).otherwise(text)
        yield F.when(
            text.isNotNull() & is_wrong,
            F.concat(F.lit(f"field {name}: '"), shown, F.lit(f"' is not {_type_name(data_type)}")),
        )


def _wrong_inside(text: Column, found: Column, field: StructField, path: str, options: Mapping[str, str]) -> Column:
    """Returns an expression that names the fields of a struct whose texts are not of their types; else null."""
    schema = field.dataType
    assert isinstance(schema, StructType)

    def of_fields(texts: Column) -> Column:
        wrong = F.concat_ws("; ", *_wrong_fields(found, texts[WRAPPED], schema, path, options))
        return F.when(wrong != "", wrong)

    return _with(parse_wrapped(text, _of_texts(schema), options), of_fields)


def _missing_fields(found: Column, schema: StructType, path: str = "") -> Iterator[Column]:
    """Yields for each NOT NULL field an expression that names the field if its value is null; else null."""
    for field in schema.fields:
        value, name = found.getField(field.name), path + field.name
        if not field.nullable:
            yield F.when(found.isNotNull() & value.isNull(), F.lit(f"field {name} is missing or null, but NOT NULL"))
        if isinstance(field.dataType, StructType):
            yield from _missing_fields(value, field.dataType, f"{name}.")


def _type_name(data_type: DataType) -> str:
    name = data_type.simpleString()
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
