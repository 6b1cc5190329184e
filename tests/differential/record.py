"""Records scripts: plays them on three nodes of Apache Kafka and writes its answers.

python -m tests.differential.record [NAME...]     (by default all)

Each script is played twice, on two clusters; the second run must have the answers that the first run recorded.
"""

from __future__ import annotations

import sys

from tests.differential.clusters import apache_kafka
from tests.differential.recorded import describe_differences, write
from tests.differential.script import SCRIPTS, load_scripts, play

__all__ = ["main"]


def main(names: list[str]) -> int:
    """Records the scripts with these names; returns the exit status."""
    load_scripts()
    chosen = names or list(SCRIPTS)
    with apache_kafka() as brokers:
        for name in chosen:
            print(name, flush=True)
            write(name, SCRIPTS[name].__doc__ or name, play(name, brokers))
    complaints = []
    with apache_kafka() as brokers:
        for name in chosen:
            different = describe_differences(name, play(name, brokers), is_kafka=True)
            complaints += [f"{name}: {different}"] if different else []
    print("\n\n".join(complaints) or f"{len(chosen)} scripts recorded")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
