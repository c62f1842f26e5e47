"""Figure files of boards: SVG and PNG, each in a light and a dark theme, drawn by vl-convert.

The text of an SVG can be searched and copied, and a description lists the numbers in words. Text is
measured and drawn with a font that vl-convert ships, never with those of the machine, unless the
environment variable FONTCONFIG_FILE names them. With the same versions of altair and vl-convert, a
board therefore gives the same bytes on every machine.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree as ET

from polarity_bench.errors import InputError, check_installed
from polarity_bench.render.chart import BarChart, Chart, LineChart, Plane
from polarity_bench.render.figures.themes import LIGHT, THEMES, Theme, config, in_theme, looks_of
from polarity_bench.render.table import Board, unique

if TYPE_CHECKING:
    from polarity_bench.render.figures.figure import Figure

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")

_SVG = "http://www.w3.org/2000/svg"
_SCALE = 1.6  # pixels of a PNG per pixel of the figure
_LONGEST = 80  # maximum length of a file name, without number, theme and suffix
NEEDED = ("altair", "jinja2", "vl_convert")
"""Packages of the extra `report`, which pages and figures need."""
_FONTS = Path(__file__).with_name("fonts.conf")
_REACH = 20  # more than half the size of any symbol, in pixels of the figure
_LINE = 131  # maximum characters in a line of the note below a title


def figure_files(board: Board, figures: Sequence[Figure]) -> dict[str, bytes]:
    """Draw all charts of a board in both themes and both formats.

    Args:
        board: Board that names the files.
        figures: Figures of the board's charts, from `figures_of`.

    Returns:
        Contents of the files by name: `NAME.svg`, `NAME-dark.svg`, `NAME.png`, `NAME-dark.png`.
    """
    files: dict[str, bytes] = {}
    for stem, figure in zip(stems(board.charts), figures, strict=True):
        spec = _spec([figure])
        for ending, theme in THEMES.items():
            svg = _svg(spec, theme)
            files[f"{stem}{ending}.svg"] = _with_words(svg, [figure])
            files[f"{stem}{ending}.png"] = _png(svg)
    return files


def figure_svg(board: Board) -> bytes:
    """Draw a board's charts of P against S in one SVG, one below the other, in the light theme.

    Raises:
        InputError: If the board has no such chart, or altair or vl-convert is not installed.
    """
    if not board.planes:
        raise InputError(
            "`figure`: there is nothing to draw, because no two encoders have the same reference "
            "and the same k; add results with a shared reference"
        )
    return draw_charts(board.planes, "svg")


def draw_charts(charts: Sequence[Chart], form: Format, theme: Theme = LIGHT) -> bytes:
    """Draw one or more charts in one file, one below the other.

    Raises:
        InputError: If altair or vl-convert is not installed.
    """
    figures = figures_of(charts)
    svg = _svg(_spec(figures), theme)
    return _png(svg) if form == "png" else _with_words(svg, figures)


def can_draw() -> bool:
    """Return whether the extra `report` is installed, which pages and figures need."""
    return all(find_spec(name) for name in NEEDED)


def check_can_draw() -> None:
    """Check that the extra `report` is installed.

    Raises:
        InputError: If one of its packages is not installed.
    """
    check_installed("a figure", *NEEDED)


def figures_of(charts: Sequence[Chart]) -> list[Figure]:
    """Lay out the figures of charts, with the same colours and shapes in all figures.

    Charts of P against S that have the same title also name their reference.

    Raises:
        InputError: If altair or vl-convert is not installed.
    """
    check_can_draw()
    from polarity_bench.render.figures.plane import plane_figure
    from polarity_bench.render.figures.series import bars_figure, lines_figure

    looks = looks_of(charts)
    titles = [chart.title for chart in charts]
    figures = []
    for chart in charts:
        match chart:
            case Plane():
                several = titles.count(chart.title) > 1
                figures.append(plane_figure(chart, looks, several=several))
            case LineChart():
                figures.append(lines_figure(chart, looks))
            case BarChart():
                figures.append(bars_figure(chart, looks))
    return figures


def stems(charts: Sequence[Chart]) -> list[str]:
    """Return a unique file name, without suffix, for each chart.

    Names consist of lower-case letters, digits and hyphens, and are derived from the titles or, for
    charts of P against S, from the task and k.

    Example:
        >>> stems([BarChart("P by part: a/../b", "P", (), ()), BarChart("???", "P", (), ())])
        ['p-by-part-a-b', 'figure']
    """
    planes = {(each.task, each.k) for each in charts if isinstance(each, Plane)}
    n_ks = Counter(task for task, _ in planes)
    names: list[str] = []
    for each in charts:
        name = each.title
        if isinstance(each, Plane):
            name = f"{each.task} p against s" + (f" k {each.k}" if n_ks[each.task] > 1 else "")
        names.append(_slug(name))
    return unique(names, endings=THEMES)


def _slug(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", letters)[:_LONGEST].strip("-") or "figure"


def _spec(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return the specification of a file with figures one below the other, without a theme."""
    import altair as alt

    titled = []
    for figure in figures:
        lines = wrap(figure.note, _LINE, break_long_words=False, break_on_hyphens=False)
        title = alt.Title(figure.title, subtitle=lines or alt.Undefined)
        titled.append(figure.chart.properties(title=title))
    chart = titled[0] if len(titled) == 1 else alt.vconcat(*titled)
    return chart.to_dict(validate=False)


@cache
def _converter() -> Any:
    """Return vl-convert. It looks for fonts once, when it first draws, so it draws here.

    The variable is removed again, because a browser that inherits it would have no fonts.
    """
    import vl_convert

    if "FONTCONFIG_FILE" not in os.environ:
        os.environ["FONTCONFIG_FILE"] = str(_FONTS)
        try:
            vl_convert.svg_to_png(f'<svg xmlns="{_SVG}" width="1" height="1"/>')
        finally:
            del os.environ["FONTCONFIG_FILE"]
    return vl_convert


def _svg(spec: Mapping[str, Any], theme: Theme) -> str:
    unthemed = {name: value for name, value in spec.items() if name != "datasets"}
    data = {"datasets": spec.get("datasets", {})}
    themed = {**in_theme(unthemed, theme), "config": config(theme), **data}
    return str(_converter().vegalite_to_svg(themed, vl_version=vega_lite_version()))


def _png(svg: str) -> bytes:
    return bytes(_converter().svg_to_png(_cropped(svg), scale=_SCALE))


def _cropped(svg: str) -> str:
    """Remove what clip paths hide, which changes no pixel.

    vl-convert draws each clipped group on a layer that is as large as all marks of the group. If a
    mark lies far outside of the panel, this takes longer than all the rest of the picture.
    """
    root = ET.fromstring(svg)  # noqa: S314 - made by vl-convert
    panels = {
        f"url(#{path.get('id')})": [float(rect.get(side, 0)) for side in ("width", "height")]
        for path in root.iter(f"{{{_SVG}}}clipPath")
        for rect in path
    }
    for group in root.iter(f"{{{_SVG}}}g"):
        if (panel := panels.get(group.get("clip-path", ""))) is None:
            continue
        for mark in group.findall(f"{{{_SVG}}}path[@transform]"):
            if place := re.match(r"translate\(([^,]+),([^,)]+)\)", mark.get("transform", "")):
                ends = zip(map(float, place.groups()), panel, strict=True)
                if not all(-_REACH < x < side + _REACH for x, side in ends):
                    group.remove(mark)
        if "mark-rect" in group.get("class", ""):  # the layer of a filter has the filter's size
            width, height = (str(side + 2 * _REACH) for side in panel)
            area = {"x": f"-{_REACH}", "y": f"-{_REACH}", "width": width, "height": height}
            options = {"filterUnits": "userSpaceOnUse", "color-interpolation-filters": "sRGB"}
            name = f"panel-of-{group.get('clip-path', '')[5:-1]}"
            ET.SubElement(ET.SubElement(group, "filter", area, id=name, **options), "feOffset")
            for mark in group.findall(f"{{{_SVG}}}path"):
                mark.set("filter", f"url(#{name})")
    return ET.tostring(root, encoding="unicode")


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that altair targets, without the patch number."""
    import altair as alt

    return alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]


def _with_words(svg: str, figures: Sequence[Figure]) -> bytes:
    """Add a title and a description in words to an SVG, and number its clip paths from 0.

    vl-convert numbers clip paths consecutively within a process. Without new numbers, the bytes of
    a file would depend on the figures that were drawn before.
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)  # noqa: S314 - made by vl-convert
    names: dict[str, str] = {}
    for element in root.iter():
        if reference := element.get("clip-path"):
            names.setdefault(reference, f"url(#clip{len(names)})")
            element.set("clip-path", names[reference])
    for element in root.iter(f"{{{_SVG}}}clipPath"):
        element.set("id", names.get(f"url(#{element.get('id')})", "url(#unused)")[5:-1])
    title, description = ET.Element(f"{{{_SVG}}}title"), ET.Element(f"{{{_SVG}}}desc")
    title.text = "; ".join(figure.title for figure in figures)
    description.text = " ".join(f"{each.title}. {each.description}" for each in figures)
    root[:0] = [title, description]
    root.set("role", "img")
    svg_bytes: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return svg_bytes + b"\n"
