"""klamm for Spark: source and sink `format("klamm")`, a session for streaming, and the lag of a query.

    spark = klamm.spark.session("flights")
    spark.readStream.format("klamm").option("kafka.bootstrap.servers", …).option("subscribe", "flights").load()
    delays.write.format("klamm").mode("append").option("kafka.bootstrap.servers", …).option("topic", "delays").save()

`format("klamm")` works in any other session as well: Spark finds the module `pyspark_klamm` by its name. If that module
is not on the driver's path, call `klamm.spark.register(spark)`. PySpark is imported when a name is first used, not with
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klamm.errors import KlammError

if TYPE_CHECKING:
    from klamm.spark.application import register
    from klamm.spark.data_source import KlammDataSource
    from klamm.spark.query_lag import lag
    from klamm.spark.session_builder import session
    from klamm.spark.sink.foreach_batch import write_topic

__all__ = ["KlammDataSource", "lag", "register", "require_pyspark", "session", "write_topic"]


def require_pyspark() -> None:
    """Raises `KlammError`, which names the command to install them, unless PySpark and pyarrow can be imported."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise KlammError(
            f"klamm.spark needs PySpark ({error}). Run: pip install '.[spark]' in a clone of klamm"
        ) from error


def __getattr__(name: str) -> Any:
    if name == "KlammDataSource":
        require_pyspark()
        from klamm.spark.data_source import KlammDataSource

        return KlammDataSource
    if name == "lag":
        from klamm.spark.query_lag import lag

        return lag
    if name == "register":
        require_pyspark()
        from klamm.spark.application import register

        return register
    if name == "session":
        from klamm.spark.session_builder import session

        return session
    if name == "write_topic":
        require_pyspark()
        from klamm.spark.sink.foreach_batch import write_topic

        return write_topic
    raise AttributeError(f"module 'klamm.spark' has no attribute {name!r}")
