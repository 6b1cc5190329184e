"""The option `klamm.sink.first.batch`: what the user says about a query whose marker is missing.

The value names the query, too: an option that stays in a program must not drop or repeat a micro-batch of the query
that begins with a new checkpoint.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.spark.source.errors import OptionError

__all__ = ["FIRST_BATCH_OPTION", "FirstBatch"]

FIRST_BATCH_OPTION: Final = "klamm.sink.first.batch"


class FirstBatch(NamedTuple):
    """The user's statement that the topics have all micro-batches of the query before this one, and none from this one
    on."""

    query_id: str
    batch_id: int

    @classmethod
    def parse(cls, text: str) -> FirstBatch:
        """Parses the value `<query id>/<micro-batch id>`. Raises `OptionError`."""
        query_id, _, number = text.strip().rpartition("/")
        if not query_id or not (number.isascii() and number.isdecimal()):
            raise OptionError(
                f"{FIRST_BATCH_OPTION}={text}: it is the id of the query and that of a micro-batch, with a slash in "
                "between, as in the error of the query that has stopped"
            )
        return cls(query_id, int(number))

    def __str__(self) -> str:
        """Returns the option with its value."""
        return f"{FIRST_BATCH_OPTION}={self.query_id}/{self.batch_id}"
