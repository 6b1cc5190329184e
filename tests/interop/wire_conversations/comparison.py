"""Holds a conversation with both brokers, and returns the differences.

A difference is one line, "2. CreateTopicsRequest topics[0].error_code: kafka 3, klamm 0": the number of the answer in
the conversation, the field, and both values. `differences.txt` lists the known differences:

    # the reason, in whole sentences
    @ name-of-the-conversation v3-13
    2. CreateTopicsRequest topics[0].error_code: kafka 3, klamm 0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias

from tests.interop.wire_conversations.masks import Tree
from tests.interop.wire_conversations.peer import Peer
from tests.interop.wire_conversations.talk import CONVERSATIONS, Talk

__all__ = ["Differences", "compare", "listed_differences", "show"]

LISTED: Final = Path(__file__).with_name("differences.txt")

Differences: TypeAlias = dict[str, set[int]]
"""Lines, each with the versions in which the line occurs."""


def compare(name: str, kafka: Peer, klamm: Peer) -> Differences:
    """Holds the conversation in all its versions with both brokers at the same time. Can run once with each broker."""
    conversation = CONVERSATIONS[name]

    def hold(peer: Peer) -> list[list[tuple[str, Tree]]]:
        transcripts = []
        for version in conversation.versions:
            with Talk(peer, f"wire-{name}", version) as talk:
                conversation.hold(talk)
                transcripts.append(talk.transcript)
        return transcripts

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(hold, (kafka, klamm))
    found: Differences = {}
    for version, one, other in zip(conversation.versions, theirs, ours, strict=True):
        for line in _compare_transcripts(one, other):
            found.setdefault(line, set()).add(version)
    return found


def _compare_transcripts(theirs: list[tuple[str, Tree]], ours: list[tuple[str, Tree]]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip_longest(theirs, ours, fillvalue=("nothing", None)), 1):
        if one[0] != other[0]:
            yield f"{number}. {one[0]} or {other[0]}"
        for line in _compare_trees(one[1], other[1], ""):
            yield f"{number}. {one[0]} {line}"


def _compare_trees(theirs: Tree, ours: Tree, path: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs | ours:
            yield from _compare_trees(theirs.get(key), ours.get(key), f"{path}.{key}" if path else key)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _compare_trees(one, other, f"{path}[{index}]")
    elif isinstance(theirs, list) and isinstance(ours, list):
        for each in theirs:
            if each not in ours:
                yield f"{path}: only kafka has {each!r}"
        for each in ours:
            if each not in theirs:
                yield f"{path}: only klamm has {each!r}"
        if all(each in ours for each in theirs) and all(each in theirs for each in ours):
            yield f"{path}: kafka has {len(theirs)}, klamm {len(ours)}"
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{path}: kafka {theirs!r}, klamm {ours!r}"


def listed_differences() -> dict[str, Differences]:
    """Returns the differences that differences.txt lists, by conversation."""
    listed: dict[str, Differences] = {}
    current: Differences = {}
    versions: set[int] = set()
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            _, name, first_to_last = line.split(" ")
            first, _, last = first_to_last.removeprefix("v").partition("-")
            versions = set(range(int(first), int(last or first) + 1))
            current = listed.setdefault(name, {})
        elif line and not line.startswith("#"):
            current.setdefault(line, set()).update(versions)
    return listed


def show(differences: Differences) -> str:
    """Returns the differences in the format of differences.txt, without reasons."""
    by_versions: dict[str, list[str]] = {}
    for line, versions in differences.items():
        by_versions.setdefault(_ranges(sorted(versions)), []).append(line)
    return "\n".join(line for versions, lines in by_versions.items() for line in (f"@ … {versions}", *lines))


def _ranges(versions: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for version in versions:
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    return " ".join(f"v{first}" if first == last else f"v{first}-{last}" for first, last in ranges)
