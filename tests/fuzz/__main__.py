"""Runs the fuzzer on one target after another: `python -m tests.fuzz --seconds 60 [TARGET ...]`.

atheris (libFuzzer with Python's branches) creates the inputs and stores under .cache/fuzz those that reached new code.
An input that fails is written to .cache/fuzz; `--replay FILE TARGET` runs it again. After the fix, the input is kept in
tests/fuzz/regressions/<target>/, where the tests find it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

ANY = "any"
"""All targets in one run: the first byte of the input selects the target."""
_MISSING = "the fuzzer needs atheris (Linux, x86-64, Python 3.11 to 3.13): pip install atheris"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 if a target failed, 2 if the fuzzer is not installed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target, default 60")
    parser.add_argument("--runs", type=int, help="inputs for each target, instead of seconds")
    parser.add_argument("--folder", type=Path, default=Path(".cache/fuzz"), help="what was found is kept here")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this input and nothing else")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        _fuzz(options.targets[0], options)
    from tests.fuzz.targets import TARGETS, check_any

    names = options.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS and name != ANY]:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join([*TARGETS, ANY])}")
    if options.replay is not None:
        check = check_any if names[0] == ANY else TARGETS[names[0]].check
        check(options.replay.read_bytes())
        print(f"{options.replay}: nothing wrong")
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        print(_MISSING, file=sys.stderr)
        return 2
    failed = [name for name in names if not _fuzz_in_child(name, options)]
    print(f"failed: {', '.join(failed)}" if failed else f"nothing found in {', '.join(names)}")
    return 1 if failed else 0


def _fuzz_in_child(name: str, options: argparse.Namespace) -> bool:
    # libFuzzer ends its process in any case.
    limit = ["--seconds", str(options.seconds)] if options.runs is None else ["--runs", str(options.runs)]
    command = [sys.executable, "-m", "tests.fuzz", "--here", *limit, "--folder", str(options.folder), name]
    print(f"=== {name}", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def _fuzz(name: str, options: argparse.Namespace) -> NoReturn:
    import atheris

    # The schema's modules are only tables: the branches in the decoders distinguish inputs.
    with atheris.instrument_imports(include=["klamm"], exclude=["klamm.protocol.schema"]):
        from tests.fuzz.targets import TARGETS, check_any

        from klamm.protocol import codec
    compile_decoder = vars(codec)["compile_decoder"]

    def compile_instrumented(*arguments: Any) -> Any:
        return atheris.instrument_func(compile_decoder(*arguments))

    if options.runs is None:  # instrumenting takes about 15 s: too long for a short run
        vars(codec)["compile_decoder"] = compile_instrumented

    corpus = options.folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    check = check_any if name == ANY else TARGETS[name].check
    for number, target in enumerate(TARGETS.values()):
        for place, seed in enumerate(target.seeds() if name in (ANY, target.name) else ()):
            target.read(seed)  # compiles codecs before memory is measured
            (corpus / f"seed-{target.name}-{place}").write_bytes(bytes((number,)) + seed if name == ANY else seed)
    limit = f"-max_total_time={options.seconds}" if options.runs is None else f"-runs={options.runs}"
    settings = [
        limit,
        f"-artifact_prefix={options.folder}/{name}-",
        "-max_len=4096",
        "-rss_limit_mb=1024",
        "-timeout=120",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], *settings, str(corpus)], check)
    atheris.Fuzz()
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
