"""How the documentation is built: Sphinx, MyST and furo, with warnings as errors (`make docs`)."""

from __future__ import annotations

from klamm import __version__

project = "klamm"
author = "the klamm authors"
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
