"""The server-side assignors that klamm contains."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.assignors.load import LoadAssignor
from klamm.core.group.assignors.range import RangeAssignor
from klamm.core.group.assignors.uniform import UniformAssignor

__all__ = ["BUILT_IN"]

BUILT_IN: Final[Mapping[str, Assignor]] = MappingProxyType(
    {assignor.name: assignor for assignor in (UniformAssignor(), RangeAssignor(), LoadAssignor())}
)
"""The assignors by name, as configurations and clients use it."""
