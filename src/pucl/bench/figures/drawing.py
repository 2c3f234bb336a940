"""Pictures drawn: one look for all figures, and the files of each. Needs the ``plots`` extra."""

import csv
import io
import textwrap
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
WIDTH = 7.0  # inches: the width of a page
SHADE = "#fff3c4"
DPI = 120
FORMATS = ("svg", "png")
THEIRS = ", the authors"  # behind the name of a series in the legend
MANY = 50  # points that are pixels in the SVG, which would be large otherwise


def draw(picture: Picture) -> "Figure":
    """The picture as a figure of matplotlib, as wide as a page."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no global state, no display
    except ImportError:
        raise InputError(f"a figure needs matplotlib: {how_to_install('plots')}") from None
    n_rows = -(-len(picture.panels) // picture.columns)
    own_shape = all(panel.equal for panel in picture.panels)
    height = WIDTH / picture.columns if own_shape else 2.7
    figure = Figure(figsize=(WIDTH, n_rows * height + 1.1), layout="constrained")
    axes = figure.subplots(n_rows, picture.columns, squeeze=False).flatten()
    series = list(dict.fromkeys(curve.series for panel in picture.panels for curve in panel.curves))
    for one, panel in zip(axes, picture.panels, strict=False):
        _draw_panel(one, panel, series)
    for one in axes[len(picture.panels) :]:
        one.set_axis_off()
    figure.suptitle("\n".join([picture.title, *textwrap.wrap(picture.conditions, 100)]), fontsize=9)
    handles = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    if handles:
        handles = dict(sorted(handles.items(), key=lambda item: item[0].endswith(THEIRS)))  # ours first
        columns = min(4, len(handles))
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
        )
    return figure


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
        contents[kind] = buffer.getvalue()
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([HEADER, *rows(picture)])
    contents["csv"] = text.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    paths = files_of(name, folder)
    for kind, path in paths.items():
        replace_file(path, contents[kind])
    return list(paths.values())


def _draw_panel(axes: "Axes", panel: Panel, series: list[str]) -> None:
    if panel.heat and panel.heat.limits:
        _draw_table(axes, panel.heat, panel.heat.limits)
    elif panel.heat:
        heat = panel.heat
        levels = axes.contourf(heat.x, heat.y, heat.values, levels=10, cmap="cividis")
        bar = axes.figure.colorbar(levels, ax=axes)
        bar.set_label(heat.label, fontsize=8)
        bar.ax.tick_params(labelsize=7)
    for cloud in panel.clouds:
        style: dict[str, Any] = {"s": cloud.size, "marker": cloud.marker, "linewidths": 0, "alpha": 0.8}
        style["rasterized"] = len(cloud.x) > MANY
        axes.scatter(cloud.x, cloud.y, color=PALETTE[cloud.colour], label=cloud.series, **style)
    for curve in panel.curves:
        _draw_curve(axes, curve, series.index(curve.series))
    axes.set_title(panel.title, fontsize=8)
    axes.set_xlabel(panel.x_label, fontsize=8)
    axes.set_ylabel(panel.y_label, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set(xlim=panel.x_range, ylim=panel.y_range)
    if panel.equal:
        axes.set_aspect("equal")
    if panel.shaded:
        axes.set_facecolor(SHADE)
    if panel.x_label or panel.y_label:
        axes.spines[["top", "right"]].set_visible(False)
    else:
        axes.set(xticks=[], yticks=[])


def _draw_curve(axes: "Axes", curve: Curve, place: int) -> None:
    """A curve in the colour and shape of its series: thin dashes for published ones, no shapes for computed ones."""
    colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    if curve.source == "published":
        label = f"{curve.series}{THEIRS}"
        axes.plot(curve.x, curve.y, "--", color=colour, marker=marker, ms=3, mfc="white", lw=1, label=label)
    elif curve.source == "measured":
        style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "lw": 1.5, "capsize": 2.5}
        style["linestyle"] = "-" if curve.joined else "none"
        axes.errorbar(curve.x, curve.y, yerr=curve.error or None, label=curve.series, **style)
    else:
        line = ("-", "--", "-.", ":")[place % 4]
        axes.plot(curve.x, curve.y, line, color=colour, lw=1.6, label=curve.series)


def _draw_table(axes: "Axes", heat: Heat, limits: tuple[float, float]) -> None:
    """Squares of equal size with their values in them; the axes say what each row and column is."""
    axes.imshow(heat.values, origin="lower", aspect="auto", cmap="cividis", vmin=limits[0], vmax=limits[1])
    axes.set_xticks(range(len(heat.x)), [f"{x:g}" for x in heat.x])
    axes.set_yticks(range(len(heat.y)), [f"{y:g}" for y in heat.y])
    middle = sum(limits) / 2
    for row, values in enumerate(heat.values):
        for column, value in enumerate(values):
            ink = "white" if value < middle else "black"
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=ink)
