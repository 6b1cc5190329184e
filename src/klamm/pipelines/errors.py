"""The errors of pipelines."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["BadRecord", "DeclarationError", "PipelineError"]


class PipelineError(KlammError):
    """A pipeline can't be run, watched or stopped as asked. The text says what to do."""


class DeclarationError(PipelineError):
    """A pipeline is declared wrong: a restart can't help, the file has to change."""


class BadRecord(PipelineError):
    """A flow with `bad_records="fail"` has met a bad record."""
