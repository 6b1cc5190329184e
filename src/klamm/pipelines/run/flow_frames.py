"""The DataFrames of a flow: its records decoded and checked, then what its function makes of the good ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.decoders.decoder import BAD_REASON, DECODED
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.dead_letter_headers import originals
from klamm.pipelines.run.moving_checks import refuse_moving_check
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import source_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    from klamm.pipelines.decoders.decoder import PinnedDecoder

__all__ = [
    "BAD_RECORD_PREFIX",
    "RECORD",
    "bad_records",
    "flow_result",
    "function_result",
    "good_records",
    "observation_name",
]

RECORD: Final = "_record"
"""The column with the record's key, topic, partition, offset and timestamp."""
BAD_RECORD_PREFIX: Final = "klamm: a bad record: "
_HIDDEN: Final = "_klamm_"
_REASON: Final = f"{_HIDDEN}reason"
_ORIGINAL: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
_OF_RECORD: Final = ("key", "topic", "partition", "offset", "timestamp")
_LONGEST_CHECK: Final = 200


def observation_name(parameter: str) -> str:
    """Returns the name under which a query's progress counts the records of one source."""
    return f"klamm.{parameter}"


def flow_result(
    spark: SparkSession,
    place: Place,
    flow: Flow,
    starting_offsets: Mapping[str, str | None],
    decoders: Mapping[str, PinnedDecoder],
) -> DataFrame:
    """Returns the rows that the flow writes. Raises `DeclarationError` and what the flow's function raises."""
    frames = {}
    for parameter in flow.sources:
        records = _stream(spark, place, flow, parameter, starting_offsets[parameter])
        frames[parameter] = good_records(records, decoders[parameter], flow, parameter, observation_name(parameter))
    result = function_result(flow, frames)
    if not result.isStreaming:
        raise DeclarationError(
            f"flow {flow.name}: its function returned a DataFrame that does not come from the flow's stream"
        )
    return result


def function_result(flow: Flow, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Returns what the flow's function makes of the frames, by parameter.

    Raises `DeclarationError` if it is no DataFrame, and what the function raises.
    """
    from pyspark.sql import DataFrame

    result = flow.function(**frames)
    if not isinstance(result, DataFrame):
        raise DeclarationError(f"flow {flow.name}: its function returned {result!r}, and not a DataFrame")
    return result


def bad_records(
    spark: SparkSession,
    place: Place,
    flow: Flow,
    starting_offsets: Mapping[str, str | None],
    decoders: Mapping[str, PinnedDecoder],
) -> DataFrame:
    """Returns the bad records of all sources: the original columns with headers, and `reason`."""
    from pyspark.sql import functions as F

    frames = []
    for parameter in flow.sources:
        records = _stream(spark, place, flow, parameter, starting_offsets[parameter], is_dead_letters=True)
        judged = _judged(records, decoders[parameter], flow, parameter, with_headers=True)
        bad = _counted(judged, observation_name(parameter)).where(F.col(_REASON).isNotNull())
        columns = [F.col(_HIDDEN + name).alias(name) for name in (*_ORIGINAL, "headers")]
        frames.append(bad.select(*columns, F.col(_REASON).alias("reason")))
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    return union


def good_records(
    records: DataFrame, decoder: PinnedDecoder, flow: Flow, parameter: str, observation: str | Observation
) -> DataFrame:
    """Returns what the flow's function gets of the rows of a source: the good ones, typed, with `_record`.

    `observation` receives the counts. Raises `DeclarationError`.
    """
    judged = _judged(records, decoder, flow, parameter, with_headers=flow.sources[parameter].headers)
    return _good(_counted(judged, observation), flow)


def _stream(
    spark: SparkSession,
    place: Place,
    flow: Flow,
    parameter: str,
    starting: str | None,
    *,
    is_dead_letters: bool = False,
) -> DataFrame:
    """Returns the rows of a source as a stream; `starting` has its first offsets as JSON."""
    options = source_options(place, flow, parameter, starting_offsets=starting, is_dead_letters=is_dead_letters)
    records = spark.readStream.format("klamm").options(**options).load()
    return records if flow.letters_of is None else originals(records, flow.letters_of)


def _judged(records: DataFrame, decoder: PinnedDecoder, flow: Flow, parameter: str, *, with_headers: bool) -> DataFrame:
    """Returns the typed columns, `_record`, the original columns with a prefix, and the reason of bad records."""
    from pyspark.sql import functions as F

    source = flow.sources[parameter]
    decoded = decoder.decode(records, source.tombstones)
    original = (*_ORIGINAL, *(("headers",) if with_headers else ()))
    of_record = (*_OF_RECORD, *(("headers",) if source.headers else ()))
    flat = decoded.select(
        f"{DECODED}.*",
        F.struct(*of_record).alias(RECORD),
        *(F.col(name).alias(_HIDDEN + name) for name in original),
        F.col(BAD_REASON).alias(_REASON),
    )
    _refuse_names(flow, parameter, [*flat.columns])
    check = flow.checks.get(parameter)
    if check is None:
        return flat
    typed = flat.drop(*(name for name in flat.columns if name.startswith(_HIDDEN)))
    passes = F.expr(check) if isinstance(check, str) else check(typed)
    refuse_moving_check(flow, typed, passes)
    failed = F.when(~F.coalesce(passes, F.lit(False)), F.lit(_check_reason(flow, parameter)))
    if source.tombstones == "keep":
        failed = F.when(F.col(f"{_HIDDEN}value").isNotNull(), failed)
    return flat.withColumn(_REASON, F.coalesce(F.col(_REASON), failed))


def _counted(judged: DataFrame, observation: str | Observation) -> DataFrame:
    """Returns the frame with counts in the query's progress, or in a batch's observation.

    The counts keep Spark from pushing filters below them, which would decode each record once for every filter.
    """
    from pyspark.sql import functions as F

    return judged.observe(
        observation,
        F.count(F.lit(1)).alias("records"),
        F.count(_REASON).alias("bad"),
        F.max(F.unix_millis(f"{_HIDDEN}timestamp")).alias("newest"),
    )


def _good(judged: DataFrame, flow: Flow) -> DataFrame:
    from pyspark.sql import functions as F

    reason = F.col(_REASON)
    if flow.bad_records == "fail":
        place = F.concat_ws("", *(part for name in ("topic", "partition", "offset") for part in _named(name)))
        message = F.concat(F.lit(BAD_RECORD_PREFIX), reason, F.lit(" ("), place, F.lit(")"))
        is_good = F.when(reason.isNull(), F.lit(True)).otherwise(F.raise_error(message).cast("boolean"))
    else:
        is_good = reason.isNull()
    good = judged.where(is_good)
    return good.drop(*(name for name in good.columns if name.startswith(_HIDDEN)))


def _named(name: str) -> tuple[Column, Column]:
    from pyspark.sql import functions as F

    return F.lit(name + " " if name == "topic" else f", {name} "), F.col(_HIDDEN + name).cast("string")


def _check_reason(flow: Flow, parameter: str) -> str:
    check = flow.checks[parameter]
    text = check if isinstance(check, str) else getattr(check, "__name__", "a function")
    return f"the check is not true: {' '.join(text.split())[:_LONGEST_CHECK]}"


def _refuse_names(flow: Flow, parameter: str, columns: list[str]) -> None:
    own = columns[: columns.index(RECORD)]
    taken = [name for name in own if name.startswith(_HIDDEN)]
    if taken or columns.count(RECORD) > 1:
        raise DeclarationError(
            f"flow {flow.name}: the records of {parameter} have a field {taken[0] if taken else RECORD}, which is the "
            "name of a column of klamm's; leave it out of the schema"
        )
