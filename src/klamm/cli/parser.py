"""The parser of the command line: argparse, which says what somebody may have meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from klamm.config.nearest import suggestion

__all__ = ["Parser"]

_INVALID_CHOICE: Final = re.compile(r"argument .*: invalid choice: '(?P<word>.*)' \(choose from (?P<choices>.*)\)")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints suggest the nearest command, choice or option."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2. Where a verb is missing, the help shows those there are."""
        if message.endswith("required: VERB"):
            self.print_help(sys.stderr)
            self.exit(2, f"\n{self.prog}: error: {message}\n")
        invalid = _INVALID_CHOICE.fullmatch(message)
        if invalid is not None:
            message += suggestion(invalid["word"], (choice.strip("' ") for choice in invalid["choices"].split(",")))
        super().error(message)

    def parse_whole(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses words of which none may be left over; else the command that they name complains."""
        parsed, left = self.parse_known_args(words)
        if left:
            command = self._named_by(words)
            options = [option for action in command._actions for option in action.option_strings]
            hints = (suggestion(word.partition("=")[0], options) for word in left if word.startswith("-"))
            command.error(f"unrecognized arguments: {' '.join(left)}{''.join(hints)}")
        return parsed

    def _named_by(self, words: Sequence[str]) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = self
        for word in words:
            command = _verbs_of(command).get(word, command)
        return command


def _verbs_of(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a command's verbs; argparse has no other way to find them."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
