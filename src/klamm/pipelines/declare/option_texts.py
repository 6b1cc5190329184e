"""Options of sources and sinks, as Spark passes them on: texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from klamm.pipelines.errors import DeclarationError

__all__ = ["OptionValue", "option_texts"]

OptionValue = str | int | float | bool


def option_texts(place: str, options: Mapping[str, OptionValue] | None, reserved: Mapping[str, str]) -> dict[str, str]:
    """Returns the options as texts.

    `reserved` has the options, in lower case, that the pipeline sets itself, and the argument to use instead. Raises
    `DeclarationError` for one of them, which begins with `place`.
    """
    if options is not None and not isinstance(options, Mapping):
        raise DeclarationError(f"{place}: options is a dict from names to values, not {options!r}")
    texts = {}
    for key, value in (options or {}).items():
        if not isinstance(key, str) or not isinstance(value, str | int | float | bool):
            raise DeclarationError(
                f"{place}: options are names with a text, a number or a truth value, not {key!r} with a "
                f"{type(value).__name__}"
            )
        instead = reserved.get(key.lower())
        if instead is not None:
            raise DeclarationError(f"{place}: the pipeline sets the option {key!r} itself; {instead}")
        texts[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def names_of(place: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Returns one or several names as a tuple. Raises `DeclarationError` for an empty one."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else ()
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise DeclarationError(f"{place} takes a name or a list of names, not {given!r}")
    return names
