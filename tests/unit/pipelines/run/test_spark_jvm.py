"""Tests what is made of the errors of a JVM that has ended."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from klamm.pipelines.run.spark_jvm import is_jvm_gone, stop_session


class Session:
    """A session whose JVM answers, or raises an error at each call."""

    def __init__(self, error: Exception | None, stop_error: Exception | None = None) -> None:
        self.was_stopped = False
        self._error = error
        self._stop_error = stop_error or error
        self._jvm = self.System = self

    def nanoTime(self) -> int:
        return self._answer(self._error)

    def stop(self) -> None:
        self.was_stopped = True
        self._answer(self._stop_error)

    def _answer(self, error: Exception | None) -> int:
        if error is not None:
            raise error
        return 1


@pytest.mark.parametrize("error", [ConnectionRefusedError(), Py4JNetworkError("empty"), Py4JError("as in the JVM")])
def test_a_jvm_that_has_ended(error: Exception) -> None:
    """A JVM that does not answer is gone, whatever py4j raises; its session needs no stop."""
    session: Any = Session(error)

    assert is_jvm_gone(session)
    stop_session(session)


def test_a_jvm_that_answers() -> None:
    """An error while a session stops is raised if its JVM answers."""
    running: Any = Session(None)
    assert not is_jvm_gone(running)
    stop_session(running)
    assert running.was_stopped

    failing: Any = Session(None, Py4JError("the session can't be stopped"))
    with pytest.raises(Py4JError, match="the session can't be stopped"):
        stop_session(failing)
