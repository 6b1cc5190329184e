"""The current values of a compacted topic as a table of SQLite, for an application that asks for single keys.

    klamm pipeline run examples/current_values.py -b localhost:9092

The key of a record is a customer's id, the value an object such as {"name": "Ann", "city": "Oslo"}; a record without a
value (a tombstone) deletes the customer. Spark repeats a micro-batch after a crash; the place of the record in each row
makes the repetition change nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_batches, topic

pipeline = Pipeline("customers")

_TABLE = """
CREATE TABLE IF NOT EXISTS customers (
    id TEXT PRIMARY KEY, name TEXT, city TEXT, partition INTEGER NOT NULL, offset INTEGER NOT NULL, ms INTEGER NOT NULL
)
"""
# A deleted customer stays as a row without a name, so that a repeated older record does not bring it back. When a topic
# gets partitions, keys move to other ones. Offsets of two partitions can't be compared, but the records' times can.
_STORE = """
INSERT INTO customers VALUES (:id, :name, :city, :partition, :offset, :ms)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, city = excluded.city,
    partition = excluded.partition, offset = excluded.offset, ms = excluded.ms
WHERE CASE excluded.partition WHEN customers.partition THEN excluded.offset > customers.offset
    ELSE excluded.ms > customers.ms OR excluded.ms = customers.ms AND excluded.partition > customers.partition END
"""


def store(customers: DataFrame, batch_id: int, environment: str | None) -> None:
    """Stores the last record of each key in each partition, in one transaction."""
    last = customers.groupBy("id", "partition").agg({"record": "max"}).selectExpr("id", "partition", "`max(record)`.*")
    with closing(sqlite3.connect(f"customers-{environment or 'live'}.db")) as database, database:
        database.execute(_TABLE)
        database.executemany(_STORE, (row.asDict() for row in last.toLocalIterator()))


@pipeline.flow(
    # A name is required, so only the rows of tombstones have none.
    source=topic("customers", decode=json("name string NOT NULL, city string"), tombstones="keep"),
    sink=to_batches(store),
)
def current(customers: DataFrame) -> DataFrame:
    """Puts the offset first in a struct, so that the greatest struct of a key is that of its last record."""
    return customers.selectExpr(
        "string(_record.key) AS id",
        "_record.partition AS partition",
        "struct(_record.offset AS offset, unix_millis(_record.timestamp) AS ms, name, city) AS record",
    )
