"""The chart of a section as SVG: one panel for each figure, one bar for each broker.

The chart is drawn at the width at which the documentation shows it, so its text is as large as the text of the page.
It has a background of its own and follows the reader's choice of light or dark.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape

from bench.report import SHORT_NAMES, Section, median_of
from bench.workload import Figure

__all__ = ["draw"]

_WIDTH = 720
_MARGIN = 14
_GAP = 24
_PANEL_WIDTH = (_WIDTH - 2 * _MARGIN - _GAP) / 2
_CHARACTER_WIDTH = 7.5
_NAME_GAP = 14
_VALUE_WIDTH = 78
_LINE_HEIGHT = 17
_BAR_HEIGHT = 13
_BAR_STEP = 18
_PANEL_GAP = 14
_TITLE_CHARACTERS = 42
"""The number of characters that fit into a line above a panel's bars."""
_STYLE = """
text { font: 13px system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.unit, .name { fill: #59636e }
.background { fill: #ffffff; stroke: #d1d9e0 }
.klamm { fill: #b5482a } .kafka { fill: #3d4f66 } .tansu { fill: #8a9a5b } .mock { fill: #b9b3a7 }
.workers2 { fill: #d0895f } .workers4 { fill: #e0b293 } .baseline { fill: #8c8c8c }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8eb }
  .unit, .name { fill: #a3abb5 }
  .background { fill: #1a1c1f; stroke: #3a3f45 }
  .klamm { fill: #e0734f } .kafka { fill: #8ba3c4 } .tansu { fill: #a9ba78 } .mock { fill: #7f7a70 }
  .workers2 { fill: #b5694a } .workers4 { fill: #8a5340 } .baseline { fill: #9c9c9c }
}
"""


def draw(section: Section) -> str:
    """Returns the SVG document of a section's chart."""
    panels = [(figure, result) for figure, result in section.figures if figure.key != "records_per_second"]
    body: list[str] = []
    top = float(_MARGIN)
    for place in range(0, len(panels), 2):
        heights = []
        for column, (figure, result) in enumerate(panels[place : place + 2]):
            left = _MARGIN + column * (_PANEL_WIDTH + _GAP)
            shown = [
                (peer, value) for peer in section.peers if (value := median_of(result, peer, figure.key)) is not None
            ]
            heights.append(_PANEL_GAP + _LINE_HEIGHT * len(_titles(figure)) + _BAR_STEP * len(shown))
            body += _panel(figure, shown, left, top)
        top += max(heights)
    height = top - _PANEL_GAP + _MARGIN
    frame = f'<rect class="background" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1:.0f}" rx="6"/>'
    size = f'width="{_WIDTH}" height="{height:.0f}" viewBox="0 0 {_WIDTH} {height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(section.title)}</title>",
            f"<style>{_STYLE}</style>",
            frame,
            *body,
            "</svg>\n",
        ]
    )


def _titles(figure: Figure) -> list[str]:
    """Returns the lines above the bars: the wrapped title, then the unit."""
    better = "less is better" if figure.less_is_better else "more is better"
    return [*textwrap.wrap(figure.title, _TITLE_CHARACTERS), f"{figure.unit}, {better}" if figure.unit else better]


def _panel(figure: Figure, values: list[tuple[str, float]], left: float, top: float) -> Iterator[str]:
    lines = _titles(figure)
    y = top
    for line in lines:
        y += _LINE_HEIGHT
        kind = "unit" if line is lines[-1] else "title"
        yield f'<text class="{kind}" x="{left:.0f}" y="{y - 4:.0f}">{escape(line)}</text>'
    longest = max((value for _peer, value in values), default=0.0) or 1.0
    name_width = _NAME_GAP + _CHARACTER_WIDTH * max((len(SHORT_NAMES[peer]) for peer, _value in values), default=0)
    for peer, value in values:
        length = max(1.0, value / longest * (_PANEL_WIDTH - name_width - _VALUE_WIDTH))
        start = left + name_width
        text_y = y + _BAR_HEIGHT
        yield f'<text class="name" x="{left:.0f}" y="{text_y:.0f}">{SHORT_NAMES[peer]}</text>'
        yield (
            f'<rect class="{peer}" x="{start:.0f}" y="{y + 2:.0f}" width="{length:.1f}" height="{_BAR_HEIGHT}" rx="2"/>'
        )
        shown = f"{value:,.{figure.digits}f}"
        yield f'<text x="{start + length + 6:.0f}" y="{text_y:.0f}">{shown}</text>'
        y += _BAR_STEP
