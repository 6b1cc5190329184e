"""Spark looks for `format("klamm")` in a module of this name; importing klamm is not needed."""

from __future__ import annotations

from klamm.spark.data_source import KlammDataSource

__all__ = ["DefaultSource"]

DefaultSource = KlammDataSource
