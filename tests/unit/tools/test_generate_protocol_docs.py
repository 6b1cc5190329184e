from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "generate_protocol_docs.py"


def test_the_protocol_reference_is_up_to_date() -> None:
    """The protocol page matches the APIs of the dispatcher; `python tools/generate_protocol_docs.py` regenerates the
    page."""
    tool = runpy.run_path(str(TOOL))
    assert tool["TARGET"].read_text(encoding="utf-8") == tool["render"]()
