"""The parser of the command line: argparse with suggestions for misspelled words."""

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
    """A parser whose errors suggest the nearest command, choice or option."""

    def error(self, message: str) -> NoReturn:
        """Prints the error and ends the process with status 2. If the verb is missing, prints the help too."""
        if message.endswith("required: VERB"):
            self.print_help(sys.stderr)
            self.exit(2, f"\n{self.prog}: error: {message}\n")
        invalid = _INVALID_CHOICE.fullmatch(message)
        if invalid is not None:
            message += suggestion(invalid["word"], (choice.strip("' ") for choice in invalid["choices"].split(",")))
        super().error(message)

    def parse_whole(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses all words. If words are left over, the named command's parser reports the error."""
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
    """Returns the parsers of a command's verbs. argparse has no public API for this."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
