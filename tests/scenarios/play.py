"""Plays a scenario on a broker and returns the outcome of each step.

In addition to the members' requests (verbs/), there are these steps:

    topic events 6               a topic with six partitions
    topic events grows to 12
    topic events is deleted
    group orders                 the group of the following steps; each scenario has its own names
    member A instance=a session=2s     defaults for A's requests; a step may override them
    gather A B C events          classic members join one after another and share the topics; the first is the leader
    settle A B C                 consumer members heartbeat with their assignment until all own their target
    wait 2s                      waits; ends early when the expected outcome has come
    wait 2s while A, B heartbeat      (or consumer-heartbeat) shows their answers when they change
    A: disconnect                closes A's connections without leaving the group
    restart                      restarts the broker after all connections are closed; the scenario has its own broker
    count partitions             from here on shows the number of assigned partitions, not their indexes: assignors
                                 depend on the random ids of topics and classic members
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Final, NamedTuple

from tests.scenarios.brokers import Broker
from tests.scenarios.language import RESTART, Scenario, ScenarioError, Step
from tests.scenarios.values import Arguments, Partitions, milliseconds, show_partitions
from tests.scenarios.verbs.registry import VERBS
from tests.scenarios.watch import LOOK_SECONDS, PATIENCE_SECONDS, Watch
from tests.scenarios.world import Member, Pending, World

from klamm.errors import KlammError
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse

__all__ = ["Outcome", "play"]

OF_A_MEMBER: Final = re.compile(r"(\w+): ([a-z-]+)\s*(.*)")
BEAT_SECONDS: Final = 0.1
"""Time between two heartbeats of a member that only stays alive."""


class Outcome(NamedTuple):
    """The outcome of one step."""

    step: Step
    seen: list[str]


def play(
    scenario: Scenario, broker: Broker, expected_of: Callable[[Step], list[str] | None], time: int = 1
) -> list[Outcome]:
    """Plays the scenario until a step has an unexpected outcome; None means that any outcome is expected.

    `time` is the number of times that the scenario was played on that broker, including this one. Each run has its own
    names.
    """
    world = World(broker.bootstrap_servers, scenario.name, time)
    player = _Player(world, broker)
    outcomes: list[Outcome] = []
    try:
        for step in scenario.steps:
            expected = expected_of(step)
            try:
                outcomes.append(Outcome(step, player.perform(step.text, expected)))
            except KlammError as error:
                raise ScenarioError(f"{scenario.path}:{step.line}: {step.text}: {error}") from error
            if expected is not None and outcomes[-1].seen != expected:
                break
    finally:
        world.hang_up()
    return outcomes


class _Player:
    """Performs the steps of one scenario."""

    def __init__(self, world: World, broker: Broker) -> None:
        self._world = world
        self._watch = Watch(world)
        self._broker = broker

    def perform(self, text: str, expected: list[str] | None) -> list[str]:
        """Performs one step and returns its outcome."""
        match = OF_A_MEMBER.fullmatch(text)
        if match is not None:
            member, verb, words = self._world.member(match[1]), match[2], match[3].split()
            if verb == "disconnect":
                self._disconnect(member)
                return self._watch.see(None, expected)
            return self._watch.see(self._ask(member, verb, words), expected)
        verb, *words = text.split()
        if verb == "wait":
            return self._wait(words, expected)
        steps: dict[str, Callable[[list[str]], None]] = {
            "settle": lambda words: self._settle(words, expected),
            "topic": self._topic,
            "group": self._group,
            "member": self._member,
            "gather": self._gather,
            "count": self._count,
            RESTART: self._restart,
        }
        if verb not in steps:
            raise ScenarioError(f"no such step: {verb}")
        steps[verb](words)
        return self._watch.see(None, expected)

    def _ask(self, member: Member, verb: str, words: list[str]) -> Pending:
        if verb not in VERBS:
            raise ScenarioError(f"no such verb: {verb}")
        arguments = Arguments(words, member.defaults)
        ask = VERBS[verb](member, arguments)
        arguments.finish()
        pending = member.send(verb, ask)
        self._world.pending.append(pending)
        return pending

    def _ask_at_once(self, member: Member, verb: str, *words: str) -> str:
        """Sends a request that is answered at once; returns the answer."""
        pending = self._ask(member, verb, list(words))
        self._world.pending.remove(pending)
        return pending.receive().text

    def _disconnect(self, member: Member) -> None:
        self._world.pending = [pending for pending in self._world.pending if pending.member is not member]
        member.hang_up()

    # -- steps without a request

    def _topic(self, words: list[str]) -> None:
        match words:
            case [name, "is", "deleted"]:
                self._world.delete_topic(name)
            case [name, "grows", "to", partitions]:
                self._world.grow_topic(name, int(partitions))
            case [name, partitions]:
                self._world.create_topic(name, int(partitions))
            case _:
                raise ScenarioError("write: topic events 6, topic events grows to 12, or topic events is deleted")

    def _group(self, words: list[str]) -> None:
        (self._world.group,) = words
        self._watch.forget()

    def _restart(self, words: list[str]) -> None:
        self._world.hang_up()
        self._broker.restart()
        self._world.connect()
        self._watch.forget()

    def _count(self, words: list[str]) -> None:
        if words != ["partitions"]:
            raise ScenarioError("write: count partitions")
        self._world.counts_only = True

    def _member(self, words: list[str]) -> None:
        name, *defaults = words
        pairs = [word.partition("=") for word in defaults]
        self._world.member(name).defaults = {key: value for key, _, value in pairs}

    def _gather(self, words: list[str]) -> None:
        """Joins each new member with its assigned id; all other members rejoin, and the leader assigns the topics."""
        *names, topics = words
        members: list[Member] = []
        for name in names:
            members.append(self._world.member(name))
            if "instance" not in members[-1].defaults:
                self._ask_at_once(members[-1], "join", "range", topics)
            joins = [self._ask(members[-1], "join", ["range", topics])]
            self._wait_for_members(len(members))
            joins += [self._ask(member, "join", ["range", topics]) for member in members[:-1]]
            self._receive(joins)
            syncs = [self._ask(members[0], "sync", self._shares(members, topics.split(",")))]
            syncs += [self._ask(member, "sync", []) for member in members[1:]]
            self._receive(syncs)

    def _receive(self, pendings: list[Pending]) -> None:
        for pending in pendings:
            self._world.pending.remove(pending)
            told = pending.receive().text
            if not told.startswith("ok"):
                raise ScenarioError(f"{pending.member.name}: {pending.verb} was answered with {told}")

    def _wait_for_members(self, count: int) -> None:
        """Waits until the group has `count` members. A member counts as soon as its join request has arrived."""
        request = DescribeGroupsRequest(groups=[self._world.group_id])

        def are_there() -> bool:
            (group,) = self._world.peer.wire.call(DescribeGroupsResponse, 5, request).groups
            return len(group.members) == count

        self._world.peer.until(are_there)

    def _shares(self, members: list[Member], topics: list[str]) -> list[str]:
        """Returns the range assignor's result, as arguments of a sync."""
        shares: list[Partitions] = [{} for _ in members]
        for topic in topics:
            partitions = self._world.partitions_of(topic)
            size, rest = divmod(partitions, len(members))
            start = 0
            for number, share in enumerate(shares):
                end = start + size + (number < rest)
                share[topic] = list(range(start, end))
                start = end
        return [f"{member.name}={show_partitions(share)}" for member, share in zip(members, shares, strict=True)]

    def _settle(self, names: list[str], expected: list[str] | None) -> None:
        """Sends heartbeats of all members in turn, until three rounds bring no change.

        A coordinator works in the background (it resolves regular expressions and computes assignments). That may take
        longer than three rounds on a busy machine. So the heartbeats continue while the group is not in the expected
        state.
        """
        members = [self._world.member(name) for name in names]
        quiet, before = 0, ""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            now = "".join(self._ask_at_once(each, "consumer-heartbeat", "owns=assigned") for each in members)
            now = re.sub(r", assignment \S+", "", now)
            quiet = quiet + 1 if now == before else 0
            if quiet > 2 and len({each.generation for each in members}) == 1:
                if expected is None or self._watch.change() == expected:
                    return
                time.sleep(LOOK_SECONDS)
            before = now
        if quiet <= 2:
            raise ScenarioError(f"{', '.join(names)} do not settle")

    def _wait(self, words: list[str], expected: list[str] | None) -> list[str]:
        match words:
            case [duration]:
                return self._watch.see(None, expected, at_least_seconds=milliseconds(duration) / 1000)
            case [duration, "while", *doing]:
                named = list(takewhile(lambda word: word[0].isupper() or word == "and", doing))
                members = [self._world.member(name.rstrip(",")) for name in named if name != "and"]
                verb, *more = doing[len(named) :]
                beats = _Beats(members, lambda member: self._ask_at_once(member, verb, *more))
                seconds = milliseconds(duration) / 1000
                return self._watch.see(None, expected, at_least_seconds=seconds, meanwhile=beats.tell)
        raise ScenarioError("write: wait 2s, or wait 2s while A, B heartbeat")


class _Beats:
    """Heartbeats of members that stay alive during a wait."""

    def __init__(self, members: list[Member], beat: Callable[[Member], str]) -> None:
        self._members = members
        self._beat = beat
        self._told: dict[str, list[str]] = {member.name: [] for member in members}
        self._without_news = {
            member.name: re.compile(rf"< \w+: ok(, member \S+, epoch {member.generation}, again in \w+)?")
            for member in members
        }
        self._next = 0.0

    def tell(self) -> list[str]:
        """Sends heartbeats when they are due; returns the answers, with repeated answers only once."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + BEAT_SECONDS
            for member in self._members:
                told, answer = self._told[member.name], f"< {member.name}: {self._beat(member)}"
                if answer in told[-1:]:
                    continue
                # A first answer without news depends on timing, so it is left out when an answer with news follows.
                if len(told) == 1 and self._without_news[member.name].fullmatch(told[0]):
                    told.clear()
                told.append(answer)
        return [answer for told in self._told.values() for answer in told]
