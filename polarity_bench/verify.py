"""Verification: comparison of measured scores with published scores.

Each TOML file in `expected/` contains the scores of one publication and names their source. The
verdict depends on the absolute difference from the published score, in percentage points:
*reproduced* up to the file's `tolerance` (the rounding of the printed number), *close* up to the
file's `close`, and otherwise *differs*. The file's `note` explains possible differences.
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
    """Published table, or some rows of it.

    Attributes:
        name: Name of the file in `expected/`, without its suffix.
        title: Heading of the comparison.
        source: Reference to the publication.
        note: Settings of the published scores, and reasons for differences.
        preset: Preset of the transfer protocol; None for the default protocol.
        tolerance: Largest difference of a reproduced score, in percentage points.
        close: Largest difference of a close score, in percentage points.
        rows: The published scores.
    """

    name: str
    title: str
    source: str
    note: str = ""
    preset: Literal["literature", "papers"] | None = None
    tolerance: Annotated[float, Field(gt=0)]
    close: Annotated[float, Field(gt=0)]
    rows: tuple[PublishedScores, ...]

    def settings(self, workers: int) -> Settings:
        """Return the task settings that reproduce the published measurement.

        Args:
            workers: Number of processes that fit classifiers.
        """
        return Settings(of_types=(choose_preset(preset=self.preset),), workers=workers)

    def tasks_for(self, encoder: EncoderId) -> list[str]:
        """Return the names of the tasks with published scores of this encoder.

        Encoders match by the last part of their name. An encoder with a prompt never matches.
        """
        return [row.task for row in self.rows if _same(row.encoder, encoder)]


class ScoreCheck(Strict):
    """Comparison of a published score with the measured score, both as fractions.

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
        """The measured minus the published score; None if the measured score is None."""
        return None if self.measured is None else self.measured - self.published


def publications() -> list[Publication]:
    """Return the publications in `expected/`, sorted by file name."""
    files = sorted((Path(__file__).parent / "expected").glob("*.toml"))
    return [
        Publication.model_validate({"name": file.stem, **tomllib.loads(file.read_text("utf-8"))})
        for file in files
    ]


def compare(
    publication: Publication, encoder: EncoderId, results: Sequence[Result]
) -> Iterator[ScoreCheck]:
    """Compare the published scores of an encoder with its results.

    Args:
        publication: The published scores.
        encoder: The measured encoder.
        results: Results of the encoder; tasks without a result are *not measured*.

    Yields:
        A comparison for each published score of the encoder.
    """
    measured = {result.task: result.scores for result in results}
    for row in publication.rows:
        if not _same(row.encoder, encoder):
            continue
        for score, published in row.scores.items():
            value = measured.get(row.task, {}).get(ScoreKey.parse(score))
            mean = None if value is None or math.isnan(value.mean) else value.mean
            yield ScoreCheck(
                publication=publication.name,
                task=row.task,
                score=score,
                published=published / 100,
                measured=mean,
                verdict=_verdict(publication, published, mean),
            )


def _verdict(publication: Publication, published: float, measured: float | None) -> Verdict:
    """Return the verdict on a measured fraction, compared with a published percentage."""
    if measured is None:
        return "not measured"
    gap = abs(100 * measured - published)
    slack = 1e-9  # a tolerance such as 0.05 is not an exact binary fraction
    if gap <= publication.tolerance + slack:
        return "reproduced"
    return "close" if gap <= publication.close + slack else "differs"


def _same(expected: str, encoder: EncoderId) -> bool:
    return encoder.name.rpartition("/")[2].lower() == expected.lower() and not encoder.prompt
