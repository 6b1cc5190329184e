"""Tests that the processes of Spark's workers don't scan the same modules in the garbage collection after each task."""

from __future__ import annotations

import gc
import itertools

import pytest

from klamm.spark import frozen_objects
from klamm.spark.frozen_objects import spare_garbage_collections


def test_objects_are_frozen_again_after_the_second_fourth_and_eighth_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """One freeze is not enough, because another kind of task loads more modules. A freeze in each task costs time."""
    tasks: list[int] = []
    freezes: list[int] = []
    monkeypatch.setattr(frozen_objects, "_calls", itertools.count(1))
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(tasks[-1]))
    monkeypatch.setattr(gc, "collect", int)  # it scans all that the tests have loaded

    for number in range(1, 21):
        tasks.append(number)
        spare_garbage_collections()

    assert freezes == [1, 2, 4, 8, 16]
