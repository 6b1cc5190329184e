"""What a flow writes to: `to_topic`, `to_files`, `to_format`, `to_batches`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from klamm.pipelines.declare.option_texts import OptionValue, names_of, option_texts
from klamm.pipelines.errors import DeclarationError

if TYPE_CHECKING:
    pass

__all__ = [
    "Semantics",
    "Sink",
    "ToBatches",
    "ToFiles",
    "ToFormat",
    "ToOrigins",
    "ToTopic",
    "to_batches",
    "to_files",
    "to_format",
    "to_topic",
]

Semantics = Literal["exactly-once", "at-least-once"]

_CHECKPOINTS: Final = "the pipeline's folder of checkpoints has it"
_RESERVED_FOR_TOPICS: Final = {
    "checkpointlocation": _CHECKPOINTS,
    "kafka.bootstrap.servers": "the command and its context name the cluster",
    "klamm.sink.semantics": "use to_topic(…, semantics=…)",
    "topic": "use to_topic(name)",
}
_FILE_FORMATS: Final = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_RESERVED_FOR_FILES: Final = {"checkpointlocation": _CHECKPOINTS, "path": "use the argument path"}


@dataclass(frozen=True, slots=True)
class ToTopic:
    """A topic, and the columns that become its records."""

    topic: str
    key: str | None
    value: str | None
    headers: str | None
    semantics: Semantics
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToFiles:
    """Files of one of Spark's formats, with each micro-batch once."""

    path: str
    format: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToFormat:
    """Any other streaming sink of Spark."""

    format: str
    path: str | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToBatches:
    """A function that Spark calls with each micro-batch (`foreachBatch`)."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ToOrigins:
    """The topics that the rows name, exactly once. Only a replay has it; it is not declared."""

    marker_topic: str
    """The sink's marker needs a topic that stays the same, by its full name."""
    options: Mapping[str, str] = field(default_factory=dict)


Sink = ToTopic | ToFiles | ToFormat | ToBatches | ToOrigins


def to_topic(
    name: str,
    *,
    key: str | None = None,
    value: str | None = None,
    headers: str | None = None,
    semantics: str = "exactly-once",
    options: Mapping[str, OptionValue] | None = None,
) -> ToTopic:
    """Returns the sink that writes a flow's rows to a topic.

    `key`, `value` and `headers` name columns. Bytes and texts are written as they are, structs, arrays and maps as
    JSON, other values as text. Without `value`, the record's value is a JSON object of all columns except `key`,
    `headers` and `_record`. `options` are further options of `format("klamm")`. Raises `DeclarationError`.
    """
    (topic,) = names_of("to_topic()", [name])
    if semantics not in get_args(Semantics):
        raise DeclarationError(f"to_topic({name!r}): semantics={semantics!r}: it is 'exactly-once' or 'at-least-once'")
    for argument, column in (("key", key), ("value", value), ("headers", headers)):
        if column is not None and not isinstance(column, str):
            raise DeclarationError(f"to_topic({name!r}): {argument} is the name of a column, not {column!r}")
    return ToTopic(
        topic,
        key,
        value,
        headers,
        semantics,  # type: ignore[arg-type]
        option_texts(f"to_topic({name!r})", options, _RESERVED_FOR_TOPICS),
    )


def to_files(
    path: str,
    *,
    format: str = "parquet",
    partition_by: str | Sequence[str] = (),
    options: Mapping[str, OptionValue] | None = None,
) -> ToFiles:
    """Returns the sink that writes files with Spark's file sink, which has each micro-batch once.

    `path` is a folder on a local disk or in any file system that Spark knows. Raises `DeclarationError`.
    """
    (folder,) = names_of("to_files()", [path])
    (kind,) = names_of(f"to_files({path!r}): format", [format])
    columns = names_of(f"to_files({path!r}): partition_by", partition_by) if partition_by else ()
    return ToFiles(folder, kind, columns, option_texts(f"to_files({path!r})", options, _RESERVED_FOR_FILES))


def to_format(
    format: str,
    *,
    path: str | None = None,
    **options: OptionValue,
) -> ToFormat:
    """Returns a sink for any other `format(…)` of Spark's streaming writer, such as "delta" or "console".

    Formats of files, such as "parquet", are those of `to_files`. `{environment}` in an option stands for the name of
    the environment. Raises `DeclarationError`.
    """
    (name,) = names_of("to_format()", [format])
    if name.lower() == "klamm":
        raise DeclarationError('to_format("klamm"): use to_topic(…)')
    if name.lower() in _FILE_FORMATS:
        raise DeclarationError(f"to_format({name!r}): use to_files(path, format={name!r})")
    if path is not None and (not isinstance(path, str) or not path.strip()):
        raise DeclarationError(f"to_format({name!r}): path is a folder, a path or a URI, not {path!r}")
    return ToFormat(name, path, option_texts(f"to_format({format!r})", options, _RESERVED_FOR_FILES))


def to_batches(function: Callable[..., Any]) -> ToBatches:
    """Returns the sink that calls `function(frame, batch_id)` for each micro-batch, as Spark's `foreachBatch`.

    A parameter named `environment` gets the name of the environment, or None. Spark repeats a micro-batch after a
    crash, with the same id, so the function has to be idempotent. Raises `DeclarationError`.
    """
    if not callable(function):
        raise DeclarationError(
            f"to_batches() takes a function of a DataFrame and the micro-batch's id, not {function!r}"
        )
    return ToBatches(function)
