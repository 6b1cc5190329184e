"""The results as a picture: one panel per figure, one bar per broker."""

from __future__ import annotations

import textwrap
from pathlib import Path

from bench.report import Outcome, median_of
from bench.workload import Figure

__all__ = ["draw"]

_COLOURS = {"klamm": "#b5482a", "kafka": "#3d4f66", "tansu": "#8a9a5b", "mock": "#b9b3a7"}
_COLUMNS = 3
_COLUMN_INCHES = 5.0
_ROW_INCHES = 1.95
_TITLE_CHARACTERS = 54
"""The number of characters that fit into a line above a panel's bars."""


def draw(outcome: Outcome, target: Path) -> None:
    """Writes the picture as PNG to `target`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [panel for panel in outcome.figures() if panel[0].key != "records_per_second"]
    peers = outcome.peers
    rows = -(-len(panels) // _COLUMNS)
    size = (_COLUMN_INCHES * _COLUMNS, 0.3 + _ROW_INCHES * rows)
    drawing, axes = pyplot.subplots(rows, _COLUMNS, figsize=size, squeeze=False, layout="constrained")
    for place, axis in enumerate(axes.flat):
        if place >= len(panels):
            axis.set_visible(False)
            continue
        figure, result = panels[place]
        shown = [peer for peer in peers if median_of(result, peer, figure.key) is not None]
        values = [median_of(result, peer, figure.key) or 0.0 for peer in shown]
        bars = axis.barh([peers[peer] for peer in shown], values, color=[_COLOURS[peer] for peer in shown], height=0.7)
        axis.bar_label(bars, [f"{value:,.{figure.digits}f}" for value in values], padding=3, fontsize=8)
        axis.set_title(_title(figure), fontsize=9, loc="left")
        axis.margins(x=0.2)
        axis.invert_yaxis()
        axis.tick_params(labelsize=8)
        axis.xaxis.set_visible(False)
        for side in ("top", "right", "bottom"):
            axis.spines[side].set_visible(False)
    drawing.savefig(target, dpi=130)
    pyplot.close(drawing)


def _title(figure: Figure) -> str:
    """Returns the figure's title, wrapped, and below it the unit of the bars."""
    better = "less is better" if figure.less_is_better else "more is better"
    unit = f"{figure.unit}, {better}" if figure.unit else better
    return "\n".join([*textwrap.wrap(figure.title, _TITLE_CHARACTERS), unit])
