"""`klamm pipeline replay`: reads the dead letters of flows again."""

from __future__ import annotations

import argparse
import sys
import time

from klamm.cli.pipeline.chosen_pipeline import choose_pipeline, session_for
from klamm.cli.pipeline.stop_signals import end_while_spark_starts, stop_on_signals
from klamm.insight.words import count
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.dead_letter_replay import refuse_state, replay_flow, return_flow
from klamm.pipelines.run.pipeline_run import PipelineRun, refuse_second_run
from klamm.pipelines.run.spark_jvm import stop_session
from klamm.pipelines.run.written_topics import topic_exists

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Replays the dead letters that no earlier replay has read; returns 1 if a replay has failed.

    Signals end it as they end a run; the next replay goes on. Raises KlammError.
    """
    chosen = choose_pipeline(arguments)
    # Without names, all flows that have dead letters.
    flows = [flow for flow in chosen.flows if arguments.flows or flow.writes_dead_letters]
    if not flows:
        raise PipelineError(f"no flow of the pipeline {chosen.pipeline.name} writes dead letters")
    derive = return_flow if arguments.to_source else replay_flow
    replays = [derive(chosen.place, flow) for flow in flows]
    refuse_second_run(chosen.place, replays, time.time_ns() // 1_000_000)
    for flow, replay in list(zip(flows, replays, strict=True)):
        if not topic_exists(chosen.place, chosen.place.dead_letters_topic(flow)):
            print(f"flow {flow.name}: no dead letters")
            replays.remove(replay)
    if not replays:
        return 0
    end_while_spark_starts()
    spark = session_for(arguments, chosen, **{"spark.log.level": "OFF"})
    try:
        if not arguments.to_source:
            for replay in replays:
                refuse_state(spark, chosen.place, replay)
        running = PipelineRun(spark, chosen.pipeline, chosen.place, replays, once=True)
        stop_on_signals(running)
        has_succeeded = running.run()
        for each in running.flows:
            name = each.flow.name.rpartition(".")[0]
            figures = each.status().figures
            still_bad = figures.bad_records - each.bad_records_before
            if each.message is not None:
                print(f"klamm pipeline: {each.message}", file=sys.stderr)
            elif arguments.to_source:
                print(f"flow {name}: {count(figures.records, 'dead letter')} written to where they came from")
            else:
                print(f"flow {name}: {count(figures.records, 'dead letter')} replayed, {still_bad:,} of them still bad")
        return 0 if has_succeeded else 1
    finally:
        stop_session(spark)
