"""What a figure shows, without how it is drawn: panels of curves, points and maps, and the same as rows of a table."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Source = Literal["computed", "measured", "published"]


@dataclass(frozen=True)
class Curve:
    """A line through points.

    Attributes:
        series: what it shows; curves of one series have one colour in all panels.
        x: where.
        y: the values.
        error: standard deviation over seeds at every x, if it was measured with several; NaN where it was not.
        seeds: how many seeds there are at every x.
        source: ``"computed"`` exactly, ``"measured"`` by us, or ``"published"`` by the authors, which is dashed.
        joined: whether a line goes through the points.
    """

    series: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    seeds: tuple[int, ...] = ()
    source: Source = "computed"
    joined: bool = True


@dataclass(frozen=True)
class Cloud:
    """Points without a line; `marker` and `colour` (a place in the palette) say how they look."""

    series: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marker: str
    colour: int
    size: float = 12.0


@dataclass(frozen=True)
class Heat:
    """Values over a rectangle: ``values[i][j]`` belongs to ``y[i]`` and ``x[j]``.

    With `limits`, the ends of the scale of colours, they are a table: squares with the values in them, NaN for those
    that were not run; `seeds` says how many each square has.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    label: str
    limits: tuple[float, float] | None = None
    seeds: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above it.
        x_label: with the unit; axes without any label are left out.
        y_label: with the unit.
        curves: lines.
        clouds: points.
        heat: a map behind them.
        x_range: the ends of the axis; as the data need when not given.
        y_range: the same.
        equal: whether both axes have the same scale.
        shaded: whether the panel stands out from the others.
    """

    title: str
    x_label: str = ""
    y_label: str = ""
    curves: tuple[Curve, ...] = ()
    clouds: tuple[Cloud, ...] = ()
    heat: Heat | None = None
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    equal: bool = False
    shaded: bool = False


@dataclass(frozen=True)
class Picture:
    """A whole figure: its title, the conditions it was made under, and its panels, `columns` in a row.

    Attributes:
        title: above it.
        conditions: below the title.
        panels: from left to right and from above.
        columns: how many panels stand in a row.
        seeds: how many seeds a measured point has; those of fewer are drawn open.
        same_scale: whether panels of one quantity have the same axis of it, so that they compare.
        height: of a row of panels in inches.
    """

    title: str
    conditions: str
    panels: tuple[Panel, ...]
    columns: int
    seeds: int = 0
    same_scale: bool = False
    height: float = 2.7


HEADER = ("panel", "series", "source", "x", "y", "value", "error", "seeds")


def rows(picture: Picture) -> Iterator[tuple[object, ...]]:
    """The data of a picture, one row for every point, in the columns of `HEADER`."""
    for panel in picture.panels:
        name = panel.title.replace("\n", "; ")
        for curve in panel.curves:
            for i, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)):
                error = curve.error[i] if curve.error and not math.isnan(curve.error[i]) else ""
                yield name, curve.series, curve.source, x, y, "", error, curve.seeds[i] if curve.seeds else ""
        for cloud in panel.clouds:
            yield from ((name, cloud.series, "points", x, y, "", "", "") for x, y in zip(cloud.x, cloud.y, strict=True))
        if panel.heat:
            for i, (y, values) in enumerate(zip(panel.heat.y, panel.heat.values, strict=True)):
                for j, (x, value) in enumerate(zip(panel.heat.x, values, strict=True)):
                    shown = "" if math.isnan(value) else value
                    yield (
                        name,
                        panel.heat.label,
                        "map",
                        x,
                        y,
                        shown,
                        "",
                        panel.heat.seeds[i][j] if panel.heat.seeds else "",
                    )
