"""`klamm topic skew`: shows from a sample each partition's share and the hottest keys, and what would help."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from klamm.cli.arguments import duration, natural_number, since_ms
from klamm.cli.cluster_options import access_of, partitions_of
from klamm.insight.topic.frequent_keys import FrequentKey, LongKey
from klamm.insight.topic.skew_rule import KeyShare, TopicSkew, judge, key_shares
from klamm.insight.topic.skew_sample import PartitionSample, SampleLimits, TopicSample, sample_topic
from klamm.insight.topic.skew_words import findings, help_lines, remarks

__all__ = ["configure", "run"]

_DEFAULTS: Final = SampleLimits()
_KEYS: Final = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the topic and the bounds of the sample."""
    parser.add_argument("topic")
    parser.add_argument(
        "-n",
        "--records",
        type=natural_number,
        default=_DEFAULTS.records,
        metavar="N",
        help=f"sample about the newest N records of all partitions (default {_DEFAULTS.records})",
    )
    parser.add_argument(
        "--since", type=since_ms, metavar="WHEN", help="only records from then on: a time, or a duration such as 10m"
    )
    parser.add_argument(
        "--time-limit",
        type=duration,
        default=timedelta(seconds=_DEFAULTS.seconds),
        metavar="DURATION",
        help=f"read for so long at most (default {_DEFAULTS.seconds:.0f}s)",
    )
    parser.add_argument(
        "-k", "--keys", type=natural_number, default=_KEYS, metavar="N", help=f"show N keys (default {_KEYS})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Reads the sample and prints the picture.

    Raises ClusterError if the topic does not exist.
    """
    access = access_of(arguments)
    partitions = partitions_of(arguments, access.admin_client(), arguments.topic)
    limits = SampleLimits(records=arguments.records, seconds=arguments.time_limit / timedelta(seconds=1))
    sample = sample_topic(access, arguments.topic, partitions, limits, arguments.since)
    skew = judge(sample)
    if arguments.json:
        print(json.dumps(_document(sample, skew, arguments.keys), indent=2))
    else:
        from klamm.cli.output import new_console
        from klamm.cli.topic.skew_view import skew_view

        new_console().print(skew_view(sample, skew, arguments.keys))
    return 0


def _document(sample: TopicSample, skew: TopicSkew, most_keys: int) -> dict[str, Any]:
    """Returns the sample and the judgement as JSON data."""
    records, record_bytes = key_shares(sample)
    return {
        "topic": sample.topic,
        "partitions": [_partition(each) for each in sample.partitions],
        "unavailable_partitions": list(sample.unavailable),
        "sample": {
            "records": sample.records,
            "bytes": sample.record_bytes,
            "keys": sample.keys,
            "keys_exact": sample.are_keys_exact,
            "since_ms": sample.since_ms,
            "whole": sample.is_whole,
            "cut_by": sample.cut_by,
            "first_ms": sample.first_ms,
            "last_ms": sample.last_ms,
        },
        "keys_by_records": list(_keys(records[:most_keys])),
        "keys_by_bytes": list(_keys(record_bytes[:most_keys])),
        "skew": {
            "measure": skew.measure.value,
            "cause": skew.cause.value,
            "hottest_partition": skew.hottest,
            "hottest_share": skew.hottest_share,
            "fair_share": skew.fair_share,
            "shares": {str(partition): share for partition, share in skew.shares.items()},
            "key": next(_keys([skew.heaviest_key]), None) if skew.heaviest_key is not None else None,
            "parts_needed": skew.parts_needed,
        },
        "findings": list(findings(skew)),
        "help": list(help_lines(skew)),
        "remarks": list(remarks(sample)),
    }


def _partition(partition: PartitionSample) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "log_start": partition.log_start,
        "end": partition.end,
        "disk_bytes": partition.size_bytes,
        "sample_from": partition.start,
        "sample_to": partition.position,
        "sample_records": partition.records,
        "sample_bytes": partition.record_bytes,
        "gaps": partition.gaps,
    }


def _keys(shares: list[KeyShare]) -> Iterator[dict[str, Any]]:
    for each in shares:
        yield {
            **_key(each.key),
            "weight": each.key.weight,
            "missed_at_most": each.key.missed,
            "share": each.share,
            "partitions": sorted(each.partitions),
        }


def _key(key: FrequentKey) -> dict[str, Any]:
    """Returns a key as text if it is UTF-8, and always as hexadecimal digits; both are null for records without a key.

    Of a long key, these are its first bytes, and its length is given.
    """
    value = key.key
    if value is None:
        return {"key": None, "key_hex": None, "key_bytes": None}
    data, length = (value.start, value.length) if isinstance(value, LongKey) else (value, len(value))
    try:
        text = data.decode(errors="ignore" if isinstance(value, LongKey) else "strict")
    except UnicodeDecodeError:
        text = None
    return {"key": text, "key_hex": data.hex(), "key_bytes": length}
