"""Runs the log cleaner in tests: one cleaning of one log on the test's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.log_folder import LogFolder

from klamm.storage.cleaner.cleaning import Cleaning, Steps
from klamm.storage.cleaner.log_cleaner import run_here

__all__ = ["clean", "clean_steps", "find_dirtiest", "run_with"]


def find_dirtiest(folder: LogFolder) -> Cleaning | None:
    """Returns the log that the cleaner would clean next, or None."""
    cleaning: Cleaning | None = None
    looks: Iterator[Cleaning | None] = folder.directory.cleaner.look(folder.now_ms)
    for found in looks:
        cleaning = found
    return cleaning


def clean_steps(folder: LogFolder) -> Steps:
    """Returns the steps of the next cleaning; fails if no log is due."""
    cleaning = find_dirtiest(folder)
    assert cleaning is not None, "no log is due"
    return folder.directory.cleaner.clean(cleaning, lambda: folder.now_ms)


def run_with(steps: Steps, before_step: Callable[[], object]) -> bool:
    """Runs a cleaning to its end with a call before each of its steps, and returns the cleaning's result."""

    def interleaved() -> Steps:
        try:
            step = next(steps)
            while True:
                before_step()
                try:
                    outcome = yield step
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(outcome)
        except StopIteration as stop:
            return bool(stop.value)

    return run_here(interleaved())


def clean(folder: LogFolder) -> bool:
    """Cleans the dirtiest log. Returns whether a log was due and its cleaning succeeded."""
    return find_dirtiest(folder) is not None and run_here(clean_steps(folder))
