"""How the documentation is built: Sphinx, MyST and furo, with warnings as errors (`make docs`)."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

from klamm import __version__

project = "klamm"
author = "the klamm authors"
copyright = author
version = release = __version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"klamm {__version__}"
html_static_path = ["_static"]
html_css_files = ["klamm.css"]
exclude_patterns = ["_build"]
nitpicky = True


_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_TEXT = re.compile(r"(?<=>)[^<]+(?=<)")
_WHERE_KEYS_BREAK = re.compile(r"([.,=_:])(?=[^\s\d.,:])")


def _let_keys_break(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Allows a line break after each dot of the keys in tables: a column of long keys would widen the page."""
    if "body" in context:
        context["body"] = _CELL.sub(
            lambda cell: _TEXT.sub(lambda text: _WHERE_KEYS_BREAK.sub(r"\1<wbr>", text[0]), cell[0]), context["body"]
        )


def setup(app: Sphinx) -> None:
    """Registers the change of the pages."""
    app.connect("html-page-context", _let_keys_break)
