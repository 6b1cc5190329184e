"""The options of a writer that only `klamm.sink.semantics=exactly-once` has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.spark.sink.first_batch import FIRST_BATCH_OPTION, FirstBatch
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.option_values import parse_truth, parse_whole

__all__ = ["EXACTLY_ONCE_OPTIONS", "ExactlyOnceOptions"]

_STAGING: Final = "klamm.sink.staging"
_INLINE_BYTES: Final = "klamm.sink.inline.bytes"
_MARKER_TOPIC: Final = "klamm.sink.marker.topic"
_CHECKPOINT: Final = "checkpointLocation"
_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"

EXACTLY_ONCE_OPTIONS: Final = (_STAGING, _INLINE_BYTES, _MARKER_TOPIC, FIRST_BATCH_OPTION)
"""The names of the options as users write them."""

_STAGING_IN_CHECKPOINT: Final = "klamm-sink"
_DEFAULT_INLINE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class ExactlyOnceOptions:
    """The validated options."""

    marker_topic: str
    """The topic whose partition 0 the marker is committed for."""
    checkpoint: str | None = None
    """The query's checkpoint, as the user wrote it; None if the writer does not know it."""
    staging: str | None = None
    """The folder for the batches of large tasks, as the user wrote it; None: in the checkpoint."""
    inline_bytes: int = _DEFAULT_INLINE_BYTES
    """A task with at most this number of bytes passes its batches in its message to the driver."""
    first_batch: FirstBatch | None = None
    """What the user says about a query whose marker is missing."""

    @classmethod
    def parse(cls, given: Mapping[str, str], topic: str | None) -> ExactlyOnceOptions:
        """Parses the options, whose keys are in lower case; `topic` is the sink's option. Raises `OptionError`."""
        if parse_truth(_ASYNC_PROGRESS, given.get(_ASYNC_PROGRESS.lower(), "false")):
            raise OptionError(
                f"{_ASYNC_PROGRESS}=true excludes klamm.sink.semantics=exactly-once: Spark then continues before its "
                "checkpoint has the micro-batch"
            )
        marker_topic = _parse_text(given, _MARKER_TOPIC) or topic
        if marker_topic is None:
            raise OptionError(
                "klamm.sink.semantics=exactly-once with a column 'topic': the query's marker needs a topic that stays "
                f"the same. Set {_MARKER_TOPIC} to one of the topics, and never change it"
            )
        first_batch = given.get(FIRST_BATCH_OPTION)
        return cls(
            marker_topic=marker_topic,
            checkpoint=_parse_text(given, _CHECKPOINT),
            staging=_parse_text(given, _STAGING),
            inline_bytes=parse_whole(_INLINE_BYTES, given.get(_INLINE_BYTES, str(_DEFAULT_INLINE_BYTES))),
            first_batch=None if first_batch is None else FirstBatch.parse(first_batch),
        )

    @staticmethod
    def refuse(given: Mapping[str, str]) -> None:
        """Raises `OptionError` if one of the options is given to a writer that writes at least once."""
        for option in EXACTLY_ONCE_OPTIONS:
            if option in given:
                raise OptionError(f"{option} has a meaning only with klamm.sink.semantics=exactly-once")

    @property
    def staging_folder(self) -> str | None:
        """The folder for batches, or None without a checkpoint."""
        if self.staging is not None or self.checkpoint is None:
            return self.staging
        return f"{self.checkpoint.rstrip('/')}/{_STAGING_IN_CHECKPOINT}"


def _parse_text(given: Mapping[str, str], option: str) -> str | None:
    text = given.get(option.lower())
    if text is None:
        return None
    if not text.strip():
        raise OptionError(f"the option {option!r} is empty")
    return text.strip()
