from __future__ import annotations

import runpy
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "generate_configuration_docs.py"


def test_the_configuration_reference_is_up_to_date() -> None:
    """The configuration page matches the key table; `make docs-reference` regenerates the page."""
    tool = runpy.run_path(str(TOOL))
    assert tool["TARGET"].read_text(encoding="utf-8") == tool["render"]()
