"""Loads the Python file of a pipeline."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.errors import DeclarationError, PipelineError

__all__ = ["load_pipeline"]


def load_pipeline(path: str) -> Pipeline:
    """Runs the file, and returns the one pipeline that it declares.

    Modules next to the file can be imported, as with `python FILE.py`, also in Spark's workers on this machine.
    Raises `PipelineError` if the file can't be read or raises an error, or if it does not have exactly one pipeline.
    """
    file = Path(path)
    if not file.is_file():
        raise PipelineError(f"there is no file {path}; `klamm pipeline init {path}` writes one to begin with")
    if file.stem in sys.stdlib_module_names:
        # Its folder is on the path, also that of Spark's workers.
        raise PipelineError(f"{path} would hide Python's own module {file.stem}: give the file another name")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in before:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *before]))
    module = _run(file)
    found = {id(each): each for each in vars(module).values() if isinstance(each, Pipeline)}
    if len(found) != 1:
        names = ", ".join(each.name for each in found.values())
        raise DeclarationError(
            f"{path} declares {f'{len(found)} pipelines ({names})' if found else 'no pipeline'}: it needs exactly one, "
            "such as pipeline = Pipeline('flights')"
        )
    (pipeline,) = found.values()
    if not pipeline.flows:
        raise DeclarationError(
            f"{path}: the pipeline {pipeline.name} has no flow; decorate a function with @{_variable(module)}.flow(…)"
        )
    return pipeline


def _run(file: Path) -> ModuleType:
    name = f"klamm_pipeline_file_{file.stem}"  # hides no other module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{file} is no Python file: its name has to end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _pickle_by_value(module)
    try:
        spec.loader.exec_module(module)
    except PipelineError as error:
        raise DeclarationError(f"{_place(file, error)}: {error}") from None
    except SystemExit as error:
        # Otherwise the command would end here, with status 0 if the file says so, and without a run.
        raise DeclarationError(f"{_place(file, error)}: the file ends Python ({error!r})") from None
    except Exception as error:
        raise DeclarationError(f"{_place(file, error)}: {type(error).__name__}: {error}") from error
    return module


def _pickle_by_value(module: ModuleType) -> None:
    """Lets Spark's workers run functions of the file, which they can't import by its name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _place(file: Path, error: BaseException) -> str:
    """Returns the file, with the line that raised the error, or the line of a syntax error."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return f"{file}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _variable(module: ModuleType) -> str:
    return next(name for name, value in vars(module).items() if isinstance(value, Pipeline))
