"""`run --plot`: a small figure of the results of a run, beside their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from polarity_bench.cli import shared
from polarity_bench.errors import InputError
from polarity_bench.types import Weighting

if TYPE_CHECKING:
    from polarity_bench.suite import SuiteReport


def check_plot(file: Path) -> None:
    """Check that a figure can be drawn and written, before anything is evaluated.

    Raises:
        InputError: If not.
    """
    from polarity_bench.boards.figures.files import FORMATS, check_can_draw
    from polarity_bench.files import check_writable

    ends = [f".{form}" for form in FORMATS]
    if file.suffix not in ends:
        raise InputError(f"`plot` {file}: the file's name must end in {' or '.join(ends)}")
    if file.is_dir():
        raise InputError(f"`plot` {file}: a file is wanted, this is a folder")
    check_writable(file.parent, "plot")
    check_can_draw()


def write_plot(
    file: Path,
    reports: Iterable[SuiteReport],
    curves: Sequence[Mapping[str, object]],
    output: Path,
    weighting: Weighting,
) -> None:
    """Draw what a run has found, with the references that stand in its folder; say what is not.

    Args:
        file: Its end says the format.
        reports: What became of the tasks.
        curves: As `write_and_print_curves` returns them.
        output: The folder of the results.
        weighting: Of the ranks.
    """
    from polarity_bench.boards.figures.files import drawn_together
    from polarity_bench.boards.plotted import plotted, references_of
    from polarity_bench.curves.files import read_curve
    from polarity_bench.files import write_atomically

    own = [(path, result) for report in reports for result, path in report.results]
    references, lacking = references_of(own, output)
    for reference in lacking:
        shared.remark(
            f"the reference {reference.label} is not in the figure: {output} holds no result of "
            "its own; run it first"
        )
    found = [read_curve(Path(str(curve["file"]))) for curve in curves]
    drawn = plotted([*own, *references], weighting, found)
    if not drawn:
        shared.remark(f"nothing to draw: {file} is not written")
        return
    write_atomically(file, drawn_together(drawn, "png" if file.suffix == ".png" else "svg"))
    shared.remark(f"wrote {file}")
