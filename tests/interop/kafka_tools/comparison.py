"""Compares two runs of the script, and reads the known differences.

differences.txt lists the known differences: a step after "@" (with "(2)" for its second occurrence), then the lines
that only Apache Kafka prints after "- " and the lines that only klamm prints after "+ ". Lines that begin with "#" give
the reason.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

__all__ = ["differences", "masked_steps", "read_listed", "show"]

_MASKS = [
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"127\.0\.0\.1 +\d+"), "HOST PORT"),
    (re.compile(r"TopicId: \S{22}"), "TopicId: ID"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    # The ids of members of the consumer protocol: Kafka's Uuid.
    (re.compile(r"(?<![\w.-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{22}(?![\w.-])"), "UUID-WITH-22-CHARACTERS"),
    (re.compile(r"CreateTime:\d+"), "CreateTime:MILLISECONDS"),
    (re.compile(r"\t1\d{12}(?=\s)"), "\tMILLISECONDS"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: "), "TIME: "),
    (re.compile(r"Epoch: \d+"), "Epoch: NUMBER"),
    (re.compile(r"(log\.dirs?=)/\S+?(?=[ ,}]|$)"), r"\1FOLDER"),
    (re.compile(r'(?<=[\[,]")/[^"]+(?=")'), "FOLDER"),  # in a list of log_dirs
    # Counters of the cluster's metadata log.
    (re.compile(r"(A{22}\t)\d+ +"), r"\1NUMBER"),
    (re.compile(r"((?:LeaderEpoch|HighWatermark): +)\d+"), r"\1NUMBER"),
]
# A description with --all also shows klamm's own keys, which docs/reference/configuration.md lists.
_DESCRIBES_ALL = re.compile(r"kafka-configs --describe .*--all")
_OWN_KEY = re.compile(r" *klamm\.")
# Kafka documents no order of the in-sync replicas.
_IN_SYNC = re.compile(r"(?<=\tIsr: )[\d,]+")
# Kafka's coordinator lists groups in the order of a hash map, and documents no order.
_UNORDERED = re.compile(r"kafka-(consumer-)?groups --list")
# It reports at intervals, as often as there is time.
_REPEATS = re.compile(r"kafka-replica-verification ")


def masked_steps(output: str) -> dict[str, list[str]]:
    """Returns the lines of each step of a run, with masked addresses, ids, folders and times. Repeated steps are
    numbered."""
    steps: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in output.splitlines():
        if line.startswith("$ "):
            step, number = line[2:], 1
            while step in steps:
                number += 1
                step = f"{line[2:]} ({number})"
            lines = steps[step] = []
            continue
        masked = line.rstrip()
        for pattern, replacement in _MASKS:
            masked = pattern.sub(replacement, masked)
        lines.append(_IN_SYNC.sub(lambda match: ",".join(sorted(match[0].split(","))), masked))
    for step in filter(_DESCRIBES_ALL.match, steps):
        steps[step] = [line for line in steps[step] if not _OWN_KEY.match(line)]
    for step in filter(_REPEATS.match, steps):
        steps[step] = list(dict.fromkeys(steps[step]))
    return {step: sorted(lines) if _UNORDERED.match(step) else lines for step, lines in steps.items()}


def differences(kafka: Mapping[str, list[str]], klamm: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Returns, for each step in which the runs differ, the lines that only one run has, with its sign."""
    found: dict[str, list[str]] = {}
    for step in [*kafka, *(step for step in klamm if step not in kafka)]:
        compared = difflib.unified_diff(kafka.get(step, []), klamm.get(step, []), lineterm="", n=0)
        changed = [f"{line[0]} {line[1:].strip()}" for line in list(compared)[2:] if line[0] in "+-"]
        if changed:
            found[step] = changed
    return found


def read_listed(text: str) -> dict[str, list[str]]:
    """Returns the known differences, in the form of `differences`."""
    listed: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("@ "):
            lines = listed.setdefault(line[2:], [])
        elif line.startswith(("- ", "+ ")):
            lines.append(line)
    return listed


def show(found: Mapping[str, list[str]]) -> str:
    """Returns differences in the format of differences.txt."""
    return "\n".join(line for step, lines in found.items() for line in [f"@ {step}", *lines, ""])
