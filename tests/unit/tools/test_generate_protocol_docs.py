from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "generate_protocol_docs.py"


def test_the_protocol_reference_is_up_to_date() -> None:
    """The page says what the dispatcher serves; `python tools/generate_protocol_docs.py` writes it anew."""
    tool = runpy.run_path(str(TOOL))
    assert tool["TARGET"].read_text(encoding="utf-8") == tool["render"]()
