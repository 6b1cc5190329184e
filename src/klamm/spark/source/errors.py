"""The errors of the source, and its report of lost data."""

from __future__ import annotations

import logging

from klamm.errors import KlammError

__all__ = ["DataLoss", "GroupConflict", "LossPolicy", "MissingTopic", "OptionError", "QueryFenced"]

_logger = logging.getLogger(__name__)

_ADVICE_IF_FAILING = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    'streaming query to fail on such cases, set the source option "failOnDataLoss" to "false".'
)
_ADVICE_IF_GOING_ON = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you want your "
    'streaming query to fail on such cases, set the source option "failOnDataLoss" to "true".'
)


class OptionError(KlammError):
    """An option is unknown or not supported, or its value is invalid."""


class MissingTopic(KlammError):
    """A topic or partition that the query names does not exist, and `failOnDataLoss` is true."""


class DataLoss(KlammError):
    """Records that the query has not read yet are not in the log any more, and `failOnDataLoss` is true."""


class GroupConflict(KlammError):
    """The checkpoint and the group disagree on how far the query has come, and `klamm.group.conflict` is `fail`."""


class QueryFenced(KlammError):
    """The query no longer owns its group (`klamm.group.mode=member`)."""


class LossPolicy:
    """The effect of `failOnDataLoss`: an error, or a warning. The texts are those of Spark's own Kafka source."""

    def __init__(self, *, fail: bool) -> None:
        self.fail = fail

    def report(self, message: str) -> None:
        """Raises `DataLoss` if `failOnDataLoss` is true, else logs a warning."""
        if self.fail:
            raise DataLoss(f"{message}. {_ADVICE_IF_FAILING}")
        _logger.warning("%s. %s", message, _ADVICE_IF_GOING_ON)

    def report_missing(self, places: str) -> None:
        """Raises `MissingTopic` if `failOnDataLoss` is true, else logs a warning.

        The topic may never have existed, so the text does not speak of a loss.
        """
        message = f"{places}: no such topic or partition. Is the name right, and was it created?"
        if self.fail:
            raise MissingTopic(f'{message} To read the others without it, set the option "failOnDataLoss" to "false".')
        _logger.warning("%s The query reads without it (failOnDataLoss is false).", message)
