"""Verification: comparison of measured scores with published scores.

The TOML files in `expected/` hold the published scores, each file with its source. A measured
score is *reproduced* if it is within the file's `tolerance` (the rounding of the printed number),
*close* if it is within the file's `close`, and otherwise *differs*. The file says why a score may
differ.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from polarity_bench.encoders.base import EncoderId
from polarity_bench.results.result_files import Result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.senteval.presets import choose_preset
from polarity_bench.tasks.types.base import Settings
from polarity_bench.validation import Strict

Verdict = Literal["reproduced", "close", "differs", "not measured"]


class PublishedScores(Strict):
    """Published scores, in percent, of one encoder on one task."""

    encoder: str
    task: str
    scores: dict[str, float]


class Publication(Strict):
    """A published table, or some rows of it."""

    name: str
    title: str
    source: str
    note: str = ""
    preset: Literal["literature", "papers"] | None = None
    tolerance: Annotated[float, Field(gt=0)]
    close: Annotated[float, Field(gt=0)]
    rows: tuple[PublishedScores, ...]

    def settings(self, workers: int) -> Settings:
        """Return the settings that measure these scores."""
        return Settings(of_types=(choose_preset(preset=self.preset),), workers=workers)

    def tasks_for(self, encoder: EncoderId) -> list[str]:
        """Return the tasks with published scores of this encoder.

        Encoders are matched by the last part of their name.
        """
        return [row.task for row in self.rows if _same(row.encoder, encoder)]


class ScoreCheck(Strict):
    """A published score and the measured one, as fractions.

    The measured score is None if it is missing or undefined.
    """

    publication: str
    task: str
    score: str
    published: float
    measured: float | None
    verdict: Verdict

    @property
    def difference(self) -> float | None:
        """The measured score minus the published one; None if there is no measured score."""
        return None if self.measured is None else self.measured - self.published


def publications() -> list[Publication]:
    """Read all publications from the files in `expected/`."""
    files = sorted((Path(__file__).parent / "expected").glob("*.toml"))
    return [
        Publication.model_validate({"name": file.stem, **tomllib.loads(file.read_text("utf-8"))})
        for file in files
    ]


def compare(
    publication: Publication, encoder: EncoderId, results: Sequence[Result]
) -> Iterator[ScoreCheck]:
    """Compare the published scores of an encoder with the measured ones."""
    measured = {result.task: result.scores for result in results}
    for row in publication.rows:
        if not _same(row.encoder, encoder):
            continue
        for score, published in row.scores.items():
            value = measured.get(row.task, {}).get(ScoreKey.parse(score))
            found = None if value is None or math.isnan(value.mean) else value.mean
            yield ScoreCheck(
                publication=publication.name,
                task=row.task,
                score=score,
                published=published / 100,
                measured=found,
                verdict=_verdict(publication, published, found),
            )


def _verdict(publication: Publication, published: float, measured: float | None) -> Verdict:
    """Compare a measured fraction with the published percentage."""
    if measured is None:
        return "not measured"
    gap = abs(100 * measured - published)
    slack = 1e-9  # a tolerance such as 0.05 is not an exact binary fraction
    if gap <= publication.tolerance + slack:
        return "reproduced"
    return "close" if gap <= publication.close + slack else "differs"


def _same(expected: str, encoder: EncoderId) -> bool:
    return encoder.name.rpartition("/")[2].lower() == expected.lower() and not encoder.prompt
