"""What decides in one run which records of a flow are bad: the declaration, the schemas, and the session's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.decoders.decoder import PinnedDecoder
from klamm.pipelines.run.bad_record_rule import Rule, bad_record_rule, rule_of_run
from klamm.pipelines.run.judging_settings import judging_settings
from klamm.pipelines.run.pinned_decoders import pin, store_schemas
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Judgement"]


class Judgement:
    """The decoders of a flow in one run, and its rule of what is bad.

    The flow's query and that of its dead letters share it, also after restarts. So both judge each record alike, even
    if the file with the schemas is deleted while they run. One thread uses it at a time.
    """

    def __init__(self, spark: SparkSession, place: Place, flow: Flow) -> None:
        """Takes the rule as it is declared now: an object in a closure may change while it is used."""
        self._spark = spark
        self._place = place
        self._flow = flow
        self._declared = bad_record_rule(flow)
        self._decoders: dict[str, PinnedDecoder] = {}

    def decoder(self, parameter: str) -> PinnedDecoder:
        """Returns the decoder of a source, which is determined once. Raises what `pin` raises."""
        if parameter not in self._decoders:
            self._decoders[parameter] = pin(self._spark, self._place, self._flow, parameter)
        return self._decoders[parameter]

    def decoders(self) -> Mapping[str, PinnedDecoder]:
        """Returns the decoder of each source. Raises what `pin` raises."""
        return {parameter: self.decoder(parameter) for parameter in self._flow.sources}

    def rule(self) -> Rule:
        """Returns the rule of what is bad. Raises what `decoders` raises."""
        stored = {parameter: each.stored for parameter, each in self.decoders().items()}
        return rule_of_run(self._declared, stored, judging_settings(self._spark))

    def store_schemas(self) -> None:
        """Stores what fixes the schemas, for later runs. Raises what `decoders` raises, and `OSError`."""
        store_schemas(self._place, self._flow, self.decoders())
