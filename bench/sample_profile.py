"""Runs `klamm ARGUMENTS` under a sampling profiler: python bench/sample_profile.py TARGET serve …

A timer on the process's own processor time interrupts it at every tick of the kernel (some milliseconds), and the
script counts the interrupted Python stack. So idle time does not count, C code counts for the Python line that called
it, and the broker runs at nearly its normal speed. The event loop's own C code (epoll, recv) has no Python line: it
counts for the callback that it enters next, `get_buffer` or `buffer_updated`. Writes TARGET.folded (one stack per line
with its count, for flame graph tools) and TARGET.txt (the functions, by their own time, and with the time of their
callees).
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

_INTERVAL_SECONDS = 0.001
_SHOWN = 40


def _label(code: CodeType) -> str:
    path = Path(code.co_filename)
    return f"{'/'.join(path.parts[-2:])}:{code.co_qualname}"


def _write(target: Path, samples: Counter[tuple[CodeType, ...]]) -> None:
    stacks: Counter[tuple[str, ...]] = Counter()
    for codes, count in samples.items():
        stacks[tuple(map(_label, codes))] += count
    total = sum(stacks.values())
    own: Counter[str] = Counter()
    cumulative: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for function in set(stack):
            cumulative[function] += count
    target.parent.mkdir(parents=True, exist_ok=True)
    folded = "".join(f"{';'.join(stack)} {count}\n" for stack, count in stacks.most_common())
    target.with_name(target.name + ".folded").write_text(folded, encoding="utf-8")
    lines = [f"{total} samples, evenly spread over the processor time", "", "  own%  total%  function"]
    for function, count in own.most_common(_SHOWN):
        lines.append(f"{100 * count / total:6.1f} {100 * cumulative[function] / total:7.1f}  {function}")
    target.with_name(target.name + ".txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Profiles until the command ends, for example after SIGTERM."""
    target = Path(sys.argv[1]).absolute()
    sys.argv = ["klamm", *sys.argv[2:]]
    samples: Counter[tuple[CodeType, ...]] = Counter()

    def count_stack(_number: int, frame: FrameType | None) -> None:
        stack: list[CodeType] = []
        while frame is not None:
            stack.append(frame.f_code)
            frame = frame.f_back
        samples[tuple(reversed(stack))] += 1

    from klamm.cli.main import main as klamm

    signal.signal(signal.SIGPROF, count_stack)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_SECONDS, _INTERVAL_SECONDS)
    try:
        klamm()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if samples:
            _write(target, samples)


if __name__ == "__main__":
    main()
