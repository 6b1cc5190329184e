"""Properties of every assignor across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Prints each assignor's target for a group and after two members leave. Python's sets have no stable order of ids.
PROGRAM = """
from klamm.core.group.assignors.built_in import BUILT_IN
from klamm.core.group.assignors.partition_order import in_order
from tests.unit.core.group.assignors.specifications import *
topics = {f"topic-{index}": 7 + index for index in range(5)}
for mixed in (False, True):
    members = {f"member-{index}": list(topics)[: 5 - index % 3 if mixed else 5] for index in range(9)}
    spec = group(topics, members)
    spec = spec._replace(loads={key: load for name in topics for key, load in loads_of(name, range(7)).items()})
    for name, assignor in BUILT_IN.items():
        made = assignor.assign(spec)
        again = assignor.assign(without_members(with_targets(spec, made), "member-3", "member-4"))
        for assigned in (made, again):
            for member_id, assignment in assigned.items():
                listed = [(topic_id.hex(), list(in_order(indexes))) for topic_id, indexes in assignment.items()]
                print(name, member_id, listed)
"""


def test_answers_do_not_depend_on_the_hash_seed() -> None:
    """Every assignor computes the same targets in the same order, for any PYTHONHASHSEED."""
    root = Path(__file__).parents[5]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(outputs[0].splitlines()) == 2 * 3 * (9 + 7)
    assert outputs[1:] == outputs[:1] * 2
