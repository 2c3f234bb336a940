"""Pictures drawn: one look for all figures, and the files of each. Needs the ``plots`` extra."""

import csv
import io
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pucl.bench.figures.picture import HEADER, Curve, Heat, Panel, Picture, rows
from pucl.errors import InputError, how_to_install
from pucl.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people with any colour vision can tell apart (Okabe and Ito 2008), and a shape for each.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*")
# Objectives have the same colour in all figures; what else a figure shows has those that are left.
OBJECTIVES = ("ssCL", "sCL-PU", "puCL", "puNCE", "sCL")
WIDTH = 7.0  # inches: the width of a page
SHADE = "#fff3c4"
DPI = 120
FORMATS = ("svg", "png")
THEIRS = ", the authors"  # behind the name of a series in the legend
SMALL = 10.0  # area of a point, in square points, that is too small for a legend
MANY = 50  # points that are pixels in the SVG, which would be large otherwise


def draw(picture: Picture) -> "Figure":
    """The picture as a figure of matplotlib, as wide as a page."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no global state, no display
    except ImportError:
        raise InputError(f"a figure needs matplotlib: {how_to_install('plots')}") from None
    n_rows = -(-len(picture.panels) // picture.columns)
    own_shape = all(panel.equal for panel in picture.panels)
    height = WIDTH / picture.columns if own_shape else picture.height
    figure = Figure(figsize=(WIDTH, n_rows * height + 1.1), layout="constrained")
    axes = figure.subplots(n_rows, picture.columns, squeeze=False).flatten()
    places = _places(picture)
    for one, panel in zip(axes, picture.panels, strict=False):
        _draw_panel(one, panel, places, picture.seeds)
    if picture.same_scale:
        _share_scales(axes, picture.panels)
    for one in axes[len(picture.panels) :]:
        one.set_axis_off()
    figure.suptitle("\n".join([picture.title, *balanced(picture.conditions, 100)]), fontsize=9)
    handles = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    if handles:
        handles = dict(sorted(handles.items(), key=lambda item: item[0].endswith(THEIRS)))  # ours first
        small = any(cloud.size < SMALL for panel in picture.panels if not panel.curves for cloud in panel.clouds)
        style: dict[str, Any] = {"ncols": min(4, len(handles)), "fontsize": 8, "frameon": False}
        style["markerscale"] = 2.5 if small else 1.0
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", **style)
    return figure


def balanced(text: str, width: int) -> list[str]:
    """As few lines of at most `width` characters as the text needs, and of as equal a length as words allow."""
    wrapped = partial(textwrap.wrap, text, break_on_hyphens=False)
    fewest = len(wrapped(width))
    return next(lines for less in range(1, width + 1) if len(lines := wrapped(less)) == fewest)


def files_of(name: str, folder: Path) -> dict[str, Path]:
    """The files of a figure by kind: ``svg``, ``png`` and ``csv``."""
    return {kind: folder / f"{name}.{kind}" for kind in (*FORMATS, "csv")}


def save(picture: Picture, name: str, folder: Path) -> list[Path]:
    """Write ``name.svg``, ``name.png`` and ``name.csv`` into a folder, which is made if needed."""
    figure, contents = draw(picture), {}
    import matplotlib as mpl

    for kind in FORMATS:
        buffer = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": name}):  # the same data give the same file
            figure.savefig(buffer, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
        contents[kind] = _smaller(buffer) if kind == "png" else buffer.getvalue()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADER, *rows(picture)])
    contents["csv"] = text.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    paths = files_of(name, folder)
    for kind, path in paths.items():
        replace_file(path, contents[kind])
    return list(paths.values())


def _smaller(png: io.BytesIO) -> bytes:
    """A PNG with 256 colours, which looks the same at a third of the size."""
    from PIL import Image  # matplotlib needs it, too

    smaller = io.BytesIO()
    picture = Image.open(png).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(smaller, "png", optimize=True, dpi=(DPI, DPI))
    return smaller.getvalue()


def _places(picture: Picture) -> dict[str, int]:
    """The place in the palette of every series."""
    series = dict.fromkeys(curve.series for panel in picture.panels for curve in panel.curves)
    places = {name: place for place, name in enumerate(OBJECTIVES) if name in series}
    left = [place for place in range(len(PALETTE)) if place not in places.values()]
    others = [name for name in series if name not in places]
    return places | {name: left[i % len(left)] for i, name in enumerate(others)}


def _share_scales(axes: "Iterable[Axes]", panels: Sequence[Panel]) -> None:
    """Give panels of one quantity the same axis of it."""
    groups: dict[tuple[str, str], list[Axes]] = defaultdict(list)
    for one, panel in zip(axes, panels, strict=False):
        if panel.curves:
            groups["x", panel.x_label].append(one)
            groups["y", panel.y_label].append(one)
    for (which, _), group in groups.items():
        ends = [end for one in group for end in (one.get_xlim() if which == "x" else one.get_ylim())]
        for one in group:
            one.set(**{f"{which}lim": (min(ends), max(ends))})


def _draw_panel(axes: "Axes", panel: Panel, places: dict[str, int], seeds: int) -> None:
    if panel.heat and panel.heat.limits:
        _draw_table(axes, panel.heat, panel.heat.limits, seeds)
    elif panel.heat:
        heat = panel.heat
        levels = axes.contourf(heat.x, heat.y, heat.values, levels=10, cmap="cividis")
        bar = axes.figure.colorbar(levels, ax=axes)
        bar.ax.set_title(heat.label, fontsize=8)  # not beside it, where the next panel has its own label
        bar.ax.tick_params(labelsize=7)
    for cloud in panel.clouds:
        style: dict[str, Any] = {"s": cloud.size, "marker": cloud.marker, "linewidths": 0, "alpha": 0.8}
        style["rasterized"] = len(cloud.x) > MANY
        axes.scatter(cloud.x, cloud.y, color=PALETTE[cloud.colour], label=cloud.series, **style)
    for curve in panel.curves:
        _draw_curve(axes, curve, places[curve.series], seeds)
    axes.set_title(panel.title, fontsize=8)
    axes.set_xlabel(panel.x_label, fontsize=8)
    axes.set_ylabel(panel.y_label, fontsize=8)
    axes.tick_params(labelsize=7)
    if panel.x_range:
        axes.set_xlim(panel.x_range)
    if panel.y_range:
        axes.set_ylim(panel.y_range)
    if panel.equal:
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_box_aspect(1)
    if panel.shaded:
        axes.set_facecolor(SHADE)
    if panel.x_label or panel.y_label:
        axes.spines[["top", "right"]].set_visible(False)
    else:
        axes.set(xticks=[], yticks=[])


def _draw_curve(axes: "Axes", curve: Curve, place: int, seeds: int) -> None:
    """A curve in the colour and shape of its series: thin dashes for published ones, no shapes for computed ones.

    Measured points of fewer seeds than others are open.
    """
    colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    if curve.source == "published":
        label = f"{curve.series}{THEIRS}"
        axes.plot(curve.x, curve.y, "--", color=colour, marker=marker, ms=3, mfc="white", lw=1, label=label)
    elif curve.source == "measured":
        style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "lw": 1.5, "capsize": 2.5}
        style["linestyle"] = "-" if curve.joined else "none"
        axes.errorbar(curve.x, curve.y, yerr=curve.error or None, label=curve.series, **style)
        few = [(x, y) for x, y, n in zip(curve.x, curve.y, curve.seeds, strict=False) if n < seeds]
        if few:
            open_style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "mfc": "white", "zorder": 3}
            axes.plot(*zip(*few, strict=True), linestyle="none", **open_style)
    else:
        line = ("-", "--", "-.", ":")[place % 4]
        axes.plot(curve.x, curve.y, line, color=colour, lw=1.6, label=curve.series)


def _draw_table(axes: "Axes", heat: Heat, limits: tuple[float, float], seeds: int) -> None:
    """Squares of equal size with their values in them; the axes say what each row and column is.

    A square with fewer seeds than others says how many; one without any says "not run".
    """
    axes.imshow(heat.values, origin="lower", aspect="auto", cmap="cividis", vmin=limits[0], vmax=limits[1])
    axes.set_xticks(range(len(heat.x)), [f"{x:g}" for x in heat.x])
    axes.set_yticks(range(len(heat.y)), [f"{y:g}" for y in heat.y])
    middle = sum(limits) / 2
    for row, values in enumerate(heat.values):
        for column, value in enumerate(values):
            ink = "white" if value < middle else "black"
            n = heat.seeds[row][column] if heat.seeds else seeds
            shown = f"{value:.1f}" + (f"\n{n} seed{'s' * (n > 1)}" if n < seeds else "")
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6 if n < seeds else 7, "color": ink}
            if math.isnan(value):
                axes.text(column, row, "not\nrun", **style | {"color": "#555555", "style": "italic"})
            else:
                axes.text(column, row, shown, **style)
