"""Tables of sweeps: made-up results, whose means, spreads and best are worked by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from standins import Bench

from polarity_bench.boards.sweep_tables import read_sweep, sweep_board
from polarity_bench.encoders.base import EncoderId
from polarity_bench.errors import InputError
from polarity_bench.render.chart import LineChart
from polarity_bench.render.markdown import render
from polarity_bench.results.result_files import FORMAT, Result, ResultKey, write_result
from polarity_bench.scores import Score, ScoreKey
from polarity_bench.sweeps.grid import SHIPPED
from polarity_bench.sweeps.plan import PlanItem, SweepPlan, with_defaults, write_plan
from polarity_bench.sweeps.state_files import ItemOutcome, SweepState

E5, GTE = EncoderId("org/e5", "1"), EncoderId("org/gte", "2")
BASES = {"org/e5": E5, "org/gte": GTE}
NONE = (float("nan"), float("nan"))


def result(
    encoder: EncoderId,
    p: float,
    s: float,
    *,
    reference: EncoderId | None = None,
    task: str = "sst2",
    k: int = 16,
    data: str = "data 1",
    experiment: str | None = None,
    half: float = math.nan,
) -> Result:
    """P and S with spreads of 0.25 and 0.02; unweighted both are 0.1 less; at k + 1 both are 0."""
    scores = {
        ScoreKey("polarity", k): Score(p, 0.25, (p - half, p + half), 8),
        ScoreKey("similarity", k): Score(s, 0.02, NONE, 8),
        ScoreKey("polarity", k, "uniform"): Score(p - 0.1, 0.35, NONE, 8),
        ScoreKey("similarity", k, "uniform"): Score(s - 0.1, 0.03, NONE, 8),
        ScoreKey("joint", k): Score(0.5, float("nan"), NONE, 8),
        ScoreKey("polarity", k + 1): Score(0.0, 0.0, NONE, 8),
        ScoreKey("similarity", k + 1): Score(0.0, 0.0, NONE, 8),
    }
    return Result(
        task=task,
        kind="polarity",
        result_name=f"{task.upper()}Retrieval",
        version=1,
        languages=("eng-Latn",),
        main_score=ScoreKey("joint", k),
        key=ResultKey("task 1", data, encoder, reference, {"name": "polarity", "k": [k, k + 1]}),
        scores=scores,
        counts={},
        experiment=(f"reference_{reference.digest}" if reference else "")
        if experiment is None
        else experiment,
    )


@dataclass
class Sweep:
    """A sweep in the making: `base` and `train` plan an item and write what it scored."""

    folder: Path
    title: str = "Made up"
    items: list[PlanItem] = field(default_factory=list)

    def plan(self, kind: str, encoder: str, settings: dict[str, Any], task: str = "") -> PlanItem:
        named = f"{len(self.items):012x}", kind, encoder, 1.0, settings, encoder, task
        bases = [i for i in self.items if i.settings["model"] == settings["model"] and not i.task]
        after = bases[-1].digest if bases and task else None
        planned = PlanItem(*named, after=after, resolved=with_defaults(settings) if task else {})
        self.items.append(planned)
        write_plan(SweepPlan(self.title, self.items), self.folder)
        return planned

    def write(self, made: Result) -> Path:
        return write_result(made, self.folder / "results")

    def base(
        self,
        encoder: EncoderId,
        ps: tuple[float, float] | None,
        *,
        model: str = "",
        task: str = "sst2",
    ) -> None:
        planned = self.plan("evaluation", encoder.name, {"model": model or encoder.name})
        self.items[-1] = replace(planned, encoder_digest=encoder.digest)
        write_plan(SweepPlan(self.title, self.items), self.folder)
        if ps:
            self.write(result(encoder, *ps, task=task))

    def train(
        self,
        ps: tuple[float, float] | None,
        *,
        model: str = "org/e5",
        task: str = "sst2",
        base: EncoderId | None = None,
        half: float = math.nan,
        **settings: Any,
    ) -> PlanItem:
        """Plan a training; (P, S) is what it scored, None that it has not been made."""
        said = {"recipe": "margins", "model": model, "task": task, **settings}
        planned = self.plan("training", f"run-{len(self.items)}", said, task)
        if ps:
            encoder = EncoderId(planned.encoder, f"weights {len(self.items)}")
            reference = base or BASES[model]
            self.write(result(encoder, *ps, reference=reference, task=task, half=half))
        return planned

    def link(self, base: int, training: int) -> None:
        """Link a training run to a base that has another name in the grid."""
        self.items[training] = replace(self.items[training], after=self.items[base].digest)
        write_plan(SweepPlan(self.title, self.items), self.folder)

    def fail(self, planned: PlanItem) -> None:
        state = SweepState(self.folder)
        state.make_folders()
        state.record(planned.digest, ItemOutcome("failed", planned.name, "the loss is nan"))

    def text(self, *where: str, **options: Any) -> str:
        return render(sweep_board(read_sweep(self.folder, where=where, **options)))


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    folder = tmp_path / "sweep"
    folder.mkdir()
    return Sweep(folder)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of every table, by rows, heads first."""
    found: list[list[list[str]]] = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, flags=re.M):
        rows = [line for line in block.splitlines() if not re.fullmatch(r"[|:-]+", line)]
        found.append([[cell.strip() for cell in row.strip("|").split("|")] for row in rows])
    return found


def column(table: Sequence[Sequence[str]], title: str) -> dict[str, str]:
    """The cells of a column, by the leading cell of their rows."""
    i = list(table[0]).index(title)
    return {row[0]: row[i] for row in table[1:]}


def headings(text: str) -> list[str]:
    return re.findall(r"^## (?!Notes$)(.*)$", text, flags=re.M)


def of_losses(sweep: Sweep, numbers: dict[str, float | None]) -> dict[str, str]:
    """The column of P for losses with these."""
    sweep.base(E5, (0.6, 0.8))
    for loss, p in numbers.items():
        sweep.train(None if p is None else (p, 0.5), loss=loss)
    return column(tables(sweep.text())[0], "e5, sst2")


def test_a_grid_is_shown_as_in_the_paper(sweep: Sweep) -> None:
    """Two encoders by two data sets; of one nothing is trained on the second."""
    sweep.base(E5, (0.601, 0.801))
    sweep.write(result(E5, 0.55, 0.75, task="irony"))
    sweep.base(GTE, (0.7, 0.83))
    sweep.train((0.95, 0.79), recipe="axis")
    sweep.train((0.80, 0.78), loss="contrastive", margin=0.1)
    sweep.train((0.85, 0.70), loss="contrastive", margin=0.5)
    sweep.train((0.9014, 0.72), loss="triplet", margin=0.5)
    sweep.train((0.65, 0.799), loss="mnrl")
    sweep.train((0.91, 0.7), loss="contrastive", margin=0.1, model="org/gte")
    sweep.train((0.92, 0.6), loss="contrastive", margin=0.5, model="org/gte")
    sweep.train((0.81, 0.61), loss="contrastive", margin=0.1, task="irony")
    text = sweep.text()
    assert text.startswith(
        "# Made up\n\n**triplet 0.5** has the highest P on e5, sst2: 90.1 with S 72.0;"
    )
    assert "\n\n## Losses\n\n**Polarity P**: " in text
    assert "**Semantic similarity S**: N = 50,000 or all if there are fewer, k = 16, ranks" in text
    assert text.count("mean and std over queries. 8 training runs.") == 2
    _, s = tables(text)
    assert text.count(" <sub>25.0</sub> |") == 11  # every number of P
    assert tables(text.replace(" <sub>25.0</sub>", ""))[0] == [
        ["loss", "margin", "e5, sst2", "e5, irony", "gte, sst2"],
        ["*reference*", "-", "*60.1*", "*55.0*", "*70.0*"],
        ["*axis*", "-", "*95.0*", "-", "-"],
        ["contrastive", "0.1", "80.0", "81.0", "**91.0**"],
        ["contrastive", "0.5", "**85.0**", "-", "**92.0**"],
        ["triplet", "0.5", "**90.1**", "-", "-"],
        ["mnrl", "-", "65.0", "-", "-"],
    ]
    assert [row[2] for row in s[1:]] == [
        "*80.1* <sub>2.0</sub>",
        "*79.0* <sub>2.0</sub>",
        "**78.0** <sub>2.0</sub>",
        "70.0 <sub>2.0</sub>",
        "72.0 <sub>2.0</sub>",
        "**79.9** <sub>2.0</sub>",
    ]


def test_all_that_share_the_second_place_are_bold(sweep: Sweep) -> None:
    """As shown: 0.8504 and 0.8496 are both 85.0."""
    found = of_losses(
        sweep,
        {"triplet": 0.8504, "contrastive": 0.9, "mnrl": 0.8496, "online-contrastive": 0.8494},
    )
    bold = {loss for loss, cell in found.items() if cell.startswith("**")}
    assert bold == {"triplet", "contrastive", "mnrl"}


def test_where_two_share_the_first_place_no_third_is_bold(sweep: Sweep) -> None:
    found = of_losses(sweep, {"triplet": 0.9, "contrastive": 0.89, "mnrl": 0.9})
    assert {loss for loss, cell in found.items() if "**" in cell} == {"triplet", "mnrl"}


def test_one_alone_is_not_the_best(sweep: Sweep) -> None:
    found = of_losses(sweep, {"triplet": 0.9, "contrastive": None})
    assert found["triplet"] == "90.0 <sub>25.0</sub>"
    assert found["contrastive"] == "-"


def test_several_seeds_are_a_mean_and_their_spread(sweep: Sweep) -> None:
    """0.8 and 0.9: mean 0.85, std sqrt(2 * 0.05^2 / 1) = 0.0707; a base has that over queries."""
    sweep.base(E5, (0.6, 0.8))
    seeds: dict[str, list[float | None]] = {
        "triplet": [0.8, 0.9, None],
        "contrastive": [0.7, 0.75, 0.8],
        "mnrl": [None, 0.7, None],
        "mnrl-masked": [None, None, None],
    }
    for loss, numbers in seeds.items():
        for seed, p in enumerate(numbers):
            sweep.train((p, 0.5) if p else None, loss=loss, seed=seed)
    sweep.fail(sweep.items[-1])
    text = sweep.text()
    assert column(tables(text)[0], "e5, sst2") == {
        "*reference*": "*60.0* <sub>25.0</sub>",
        "triplet": "**85.0** <sub>7.1</sub> (2 of 3 seeds)",
        "contrastive": "**75.0** <sub>5.0</sub>",
        "mnrl": "70.0 (1 of 3 seeds)",
        "mnrl-masked": "-",
    }
    assert (
        "over seeds, or over queries for a single encoder. 12 training runs: 5 missing, 1 failed."
        in text
    )
    of_one = sweep.text("seed=0")
    assert column(tables(of_one)[0], "e5, sst2")["triplet"] == "**80.0** <sub>25.0</sub>"
    assert "std over queries. 4 training runs: 2 missing." in of_one


def test_a_mean_over_seeds_has_an_interval_over_seeds_and_queries(sweep: Sweep) -> None:
    """Of 0.8 and 0.9, t of one degree of freedom is 12.706 and the standard error 0.05; the half-
    widths over queries are 3 and 4 points, of which the mean square is 12.5."""
    sweep.base(E5, (0.6, 0.8))
    for seed, (p, half) in enumerate(((0.8, 0.03), (0.9, 0.04))):
        sweep.train((p, 0.5), loss="triplet", seed=seed, half=half)
    (low, high), *_ = re.findall(r"85\.0\*{0,2} \[([-\d.]+), ([-\d.]+)\]", sweep.text())
    half = 100 * math.sqrt((12.7062 * 0.05) ** 2 + 0.00125)
    assert float(low) == pytest.approx(85 - half, abs=0.06)
    assert float(high) == 100, "P is at most 1"
    assert (
        "interval for other seeds and queries, or over queries for a single encoder."
        in sweep.text()
    )
    one = sweep.text("seed=0")
    assert "80.0 [77.0, 83.0]" in one.replace("*", "")
    assert "In brackets: the 95 % interval over queries. Subscripts: the std." in one


def test_one_that_failed_and_has_a_result_of_the_task_is_there(sweep: Sweep) -> None:
    sweep.fail(sweep.train((0.8, 0.5), loss="triplet"))
    assert "1 training run." in sweep.text()


def test_what_is_no_losss_makes_sections_and_recipes_stand_in_each(sweep: Sweep) -> None:
    """A training that leaves `warm_up` out has the default, 0.1; a setting that is one is none."""
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.7, 0.5), loss="triplet", epochs=5)
    sweep.train((0.71, 0.5), loss="mnrl", warm_up=0.1)
    sweep.train((0.72, 0.5), loss="triplet", warm_up="as-released")
    for head, p in {"linear": 0.9, "tuned": 0.91}.items():
        sweep.train((p, 0.5), recipe="axis", head=head, epochs=3)
    text = sweep.text()
    assert headings(text) == ["Losses, warm_up 0.1", "Losses, warm_up as-released"]
    first, _, second, _ = tables(text)
    others = {
        "*reference*": "*60.0*",
        "*axis, head linear*": "*90.0*",
        "*axis, head tuned*": "*91.0*",
    }
    shown = [
        {name: cell.partition(" ")[0] for name, cell in column(table, "e5, sst2").items()}
        for table in (first, second)
    ]
    assert shown == [
        others | {"triplet": "**70.0**", "mnrl": "**71.0**"},
        others | {"triplet": "72.0"},
    ]
    assert text.count("4 training runs.") == 2
    assert text.count("3 training runs.") == 2


def test_a_batch_that_only_follows_the_examples_makes_no_section(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet", examples=50, batch_size=50)
    sweep.train((0.8, 0.5), loss="triplet", examples=500)
    assert headings(sweep.text()) == ["Losses", "Numbers of examples, sst2"]
    sweep.train((0.9, 0.5), loss="triplet", examples=500, batch_size=50)
    assert headings(sweep.text())[::2] == ["Losses, batch_size 50", "Losses, batch_size 64"]


def test_of_several_numbers_of_examples_the_papers_is_shown(sweep: Sweep) -> None:
    for n, p in {500: 0.7, 100_000: 0.9, 2000: 0.8}.items():
        sweep.train((p, 0.5), loss="triplet", examples=n)
    text = sweep.text()
    assert "**Polarity P**: N = 100,000, k = 16" in text
    assert column(tables(text)[0], "e5, sst2")["triplet"].startswith("90.0")
    sweep.train((0.85, 0.5), loss="triplet", examples=50_000)
    text = sweep.text()
    assert "**Polarity P**: N = 50,000, k = 16" in text
    assert column(tables(text)[0], "e5, sst2")["triplet"].startswith("85.0")
    for asked in ("examples=500", "examples=5e2", "examples=500.0"):
        text = sweep.text(asked)
        assert headings(text) == ["Losses"]
        assert "**Polarity P**: N = 500, k = 16" in text
    assert headings(sweep.text("examples=500", "examples=2,000"))[1:] == [
        "Numbers of examples, sst2"
    ]


def test_numbers_of_examples_are_summed_up_over_all_configurations(sweep: Sweep) -> None:
    """By hand, in percent, std with n - 1:

    500: P 60, 70, 80: mean 70, std sqrt((100 + 0 + 100) / 2) = 10; S 50, 50, 56: mean 52,
    std sqrt((4 + 4 + 16) / 2) = 3.5. 2,000: one of two. Bases: P 60, 70: 65, std sqrt(50) = 7.1;
    S 80, 84: 82, std sqrt(8) = 2.8. Of another data set one, of another recipe none.
    """
    sweep.base(E5, (0.6, 0.8))
    sweep.base(GTE, (0.7, 0.84))
    sweep.train(None, loss="mnrl", examples=2000)  # rows are by number, not by place
    sweep.train((0.6, 0.5), loss="triplet", examples=500)
    sweep.train((0.7, 0.5), loss="mnrl", examples=500)
    sweep.train((0.8, 0.56), loss="mnrl", examples=500, model="org/gte", seed=1)
    sweep.train((0.9, 0.4), loss="triplet", examples=2000)
    sweep.train((0.1, 0.1), loss="mnrl", examples=500, task="irony")
    sweep.train((0.99, 0.99), recipe="axis")
    sweep.fail(sweep.train(None, loss="mnrl", examples=20_000))
    text = sweep.text()
    assert headings(text) == ["Losses", "Numbers of examples, sst2", "Numbers of examples, irony"]
    *_, sst2, irony = tables(text)
    of_bases = ["*82.0* <sub>2.8</sub>", "*80.0*", "*84.0*"]
    assert sst2 == [
        ["N", "P mean", "P min", "P max", "S mean", "S min", "S max", "n"],
        ["*reference*", "*65.0* <sub>7.1</sub>", "*60.0*", "*70.0*", *of_bases, "*2*"],
        ["500", "70.0 <sub>10.0</sub>", "60.0", "80.0", "52.0 <sub>3.5</sub>", "50.0", "56.0", "3"],
        ["2,000", "90.0", "90.0", "90.0", "40.0", "40.0", "40.0", "1"],
        ["20,000", "-", "-", "-", "-", "-", "-", "0"],
    ]
    assert irony[1:] == [
        ["*reference*", "-", "-", "-", "-", "-", "-", "*0*"],
        ["500", "10.0", "10.0", "10.0", "10.0", "10.0", "10.0", "1"],
    ]
    assert (
        "k = 16, ranks weighted linearly; std with n - 1. 6 training runs: 1 missing, 1 failed."
        in text
    )


def test_each_section_has_its_own_numbers_of_examples(sweep: Sweep) -> None:
    for rate in (1e-5, 3e-5):
        for n in (50, 500) if rate == 1e-5 else (500,):
            sweep.train((0.7, 0.5), loss="triplet", examples=n, rate=rate)
    assert headings(sweep.text()) == [
        "Losses, rate 1e-05",
        "Numbers of examples, sst2, rate 1e-05",
        "Losses, rate 3e-05",
    ]


def test_a_sweep_of_another_recipe_has_its_settings_as_rows(sweep: Sweep) -> None:
    for head, labels in (("linear", 50), ("linear", "all"), ("tuned", 50)):
        for seed in (0, 1):
            sweep.train((0.7 + seed / 10, 0.5), recipe="axis", head=head, labels=labels, seed=seed)
    text = sweep.text()
    assert headings(text) == ["axis"]
    assert [row[:2] for row in tables(text)[0]] == [
        ["head", "labels"],
        ["*reference*", "-"],
        ["linear", "50"],
        ["linear", "all"],
        ["tuned", "50"],
    ]
    assert tables(text)[0][2][2] == "**75.0** <sub>7.1</sub>"
    assert "N =" not in text


def test_ranks_may_be_weighted_otherwise(sweep: Sweep) -> None:
    found = of_losses(sweep, {"triplet": 0.8})
    assert found["triplet"] == "80.0 <sub>25.0</sub>"
    p, s = tables(sweep.text(weighting="uniform"))
    assert column(p, "e5, sst2")["triplet"] == "70.0 <sub>35.0</sub>"
    assert column(s, "e5, sst2")["triplet"] == "40.0 <sub>3.0</sub>"
    assert "ranks weighted uniformly" in sweep.text(weighting="uniform")


def test_the_ks_of_tasks_are_told(sweep: Sweep) -> None:
    sweep.train((0.8, 0.5), loss="triplet")
    sweep.plan("training", "at-4", {**sweep.items[0].settings, "task": "irony"}, "irony")
    sweep.write(result(EncoderId("at-4", "4"), 0.7, 0.4, reference=E5, task="irony", k=4))
    text = sweep.text()
    assert "k = 16 of sst2, k = 4 of irony, ranks" in text
    assert column(tables(text)[0], "e5, irony")["triplet"] == "70.0 <sub>25.0</sub>"


def test_what_was_asked_otherwise_or_of_other_tasks_is_left_out(sweep: Sweep) -> None:
    sweep.train((0.8, 0.5), loss="triplet")
    encoder = EncoderId("run-0", "weights 1")
    sweep.write(result(encoder, 0.1, 0.1, reference=E5, experiment="k_4__reference_x"))
    sweep.write(replace(result(encoder, 0.1, 0.1, experiment="reference_y"), limit=8))
    others = [
        sweep.write(result(EncoderId("run-0", weights), 0.2, 0.2, task="stsb")) for weights in "ab"
    ]
    max(others).write_text("damaged")  # the first of a file's name tells its task
    assert column(tables(sweep.text())[0], "e5, sst2")["triplet"].startswith("80.0")


def test_a_base_is_found_that_the_grid_names_by_its_place(sweep: Sweep, tmp_path: Path) -> None:
    here = EncoderId("tiny", "7")
    sweep.base(here, (0.6, 0.8), model=str(tmp_path / "models" / "tiny"))
    sweep.train((0.7, 0.5), loss="triplet", model="./models/tiny", base=here)
    sweep.link(0, 1)
    assert column(tables(sweep.text())[0], "tiny, sst2")["*reference*"] == "*60.0* <sub>25.0</sub>"


def test_a_base_of_the_same_name_elsewhere_is_not_taken(sweep: Sweep) -> None:
    one, other = EncoderId("enc", "1"), EncoderId("enc", "2")
    sweep.base(one, (0.6, 0.8), model="/a/enc")
    sweep.base(other, None, model="/b/enc")
    sweep.train((0.7, 0.5), loss="triplet", model="a/enc", base=one)
    sweep.train((0.8, 0.5), loss="triplet", model="b/enc", base=other)
    sweep.link(0, 2)
    sweep.link(1, 3)
    first = tables(sweep.text())[0]
    assert column(first, "a/enc, sst2")["*reference*"] == "*60.0* <sub>25.0</sub>"
    assert column(first, "b/enc, sst2")["*reference*"] == "-"


def test_bases_with_prompts_have_a_row_each(sweep: Sweep) -> None:
    prompted = replace(E5, prompt="query: ")
    for base, ps in ((E5, (0.6, 0.8)), (prompted, (0.65, 0.8))):
        sweep.base(base, ps)
        sweep.train((0.7, 0.5), loss="triplet", base=base, prompt=base.prompt or "")
    text = sweep.text()
    assert headings(text) == ["Losses, prompt ''", "Losses, prompt query: "]
    assert [column(tables(text)[i], "e5, sst2") for i in (0, 2)] == [
        {"*reference*": "*60.0* <sub>25.0</sub>", "triplet": "70.0 <sub>25.0</sub>"},
        {
            "*reference, prompt query: *": "*65.0* <sub>25.0</sub>",
            "triplet": "70.0 <sub>25.0</sub>",
        },
    ]


def test_models_of_one_last_name_are_told_apart_and_names_escaped(sweep: Sweep) -> None:
    other = EncoderId("an|other/e5", "3")
    sweep.train((0.7, 0.5), loss="triplet")
    sweep.train((0.8, 0.5), loss="triplet", model=other.name, base=other)
    assert r"| org/e5, sst2 | an\|other/e5, sst2 |" in re.sub(" +", " ", sweep.text())


def test_each_of_two_models_of_one_last_name_has_its_own_base(sweep: Sweep) -> None:
    """`x__e5` shares the folder of `x/e5`, too; nothing that is trained tells which is meant."""
    slashed, lined = EncoderId("x/e5", "1"), EncoderId("x__e5", "2")
    for base, p in ((E5, 0.5), (slashed, 0.6), (lined, 0.7)):
        sweep.base(base, (p, 0.8))
        sweep.train(None, loss="triplet", model=base.name)
    assert tables(sweep.text())[0][:2] == [
        ["loss", "org/e5, sst2", "x/e5, sst2", r"x\_\_e5, sst2"],
        ["*reference*", *(f"*{p}* <sub>25.0</sub>" for p in ("50.0", "60.0", "70.0"))],
    ]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("examples", "`where` examples: expected KEY=VALUE"),
        (
            "margn=0.1",
            "`where` margn=0.1: no training run has the setting 'margn'; did you mean 'margin'",
        ),
        (
            "loss=tripet",
            "`where` loss=tripet: no training run has this loss; did you mean 'triplet'",
        ),
        ("margin=0.2", "`where` margin=0.2: no training run has this margin; did you mean"),
        ("margin=some", "`where` margin=some: no training run has this margin; known: 0.1, 0.5"),
    ],
)
def test_a_setting_that_no_training_has_is_refused(sweep: Sweep, where: str, message: str) -> None:
    sweep.train((0.7, 0.5), loss="triplet", margin=0.1)
    sweep.train((0.7, 0.5), loss="contrastive")
    with pytest.raises(InputError, match=re.escape(message)):
        sweep.text(where)


def test_trainings_have_all_that_is_asked_for(sweep: Sweep) -> None:
    """A default counts as said: the margin of `contrastive` is 0.5."""
    sweep.train((0.7, 0.5), loss="triplet", margin=0.1)
    sweep.train((0.8, 0.5), loss="contrastive")
    sweep.train((0.9, 0.5), loss="contrastive", model="org/gte")
    sweep.train((0.9, 0.5), recipe="axis")

    def rows(*where: str) -> list[list[str]]:
        return [row[:2] for row in tables(sweep.text(*where))[0]]

    assert column(tables(sweep.text("margin=0.50"))[0], "gte, sst2") == {
        "*reference*": "-",
        "contrastive": "90.0 <sub>25.0</sub>",
    }
    assert rows("loss=triplet", "loss=contrastive", "model=e5") == [
        ["loss", "margin"],
        ["*reference*", "-"],
        ["triplet", "0.1"],
        ["contrastive", "0.5"],
    ]
    with pytest.raises(
        InputError, match="`where` loss=triplet, model=gte: no training run has all"
    ):
        rows("loss=triplet", "model=gte")


def test_two_results_for_one_cell_are_refused(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    sweep.write(result(EncoderId("run-0", "other weights"), 0.8, 0.5, reference=E5))
    with pytest.raises(InputError, match=r"sst2: .* both results of the encoder run-0 for one"):
        sweep.text()


def test_a_result_without_its_reference_gives_way_to_one_with_it(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    absent = replace(E5, weights="absent 1")
    sweep.write(result(EncoderId("run-0", "weights 1"), 0.8, 0.9, reference=absent))
    assert column(tables(sweep.text())[1], "e5, sst2")["triplet"].startswith("50.0")


def test_results_of_different_versions_are_refused(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    sweep.plan("training", "newer", {**sweep.items[0].settings, "loss": "mnrl"}, "sst2")
    path = sweep.write(result(EncoderId("newer", "1"), 0.8, 0.5, reference=E5, data="data 2"))
    with pytest.raises(InputError, match="different versions of the task, its data or its prot"):
        sweep.text()
    sweep.write(result(EncoderId("newer", "1"), 0.8, 0.5, reference=E5))
    provenance = path.with_suffix(".provenance.json")
    written = f'"format": {FORMAT}'
    provenance.write_text(provenance.read_text().replace(written, '"format": 99'))
    with pytest.raises(InputError, match=f"in format {FORMAT}, got format 99"):
        sweep.text()


def test_trainings_of_one_base_that_were_measured_with_two_are_refused(sweep: Sweep) -> None:
    """As where a base was replaced while a sweep ran, by an older version."""
    sweep.base(E5, (0.5, 0.5))
    sweep.train((0.6, 0.4), loss="triplet", seed=1)
    replaced = replace(E5, weights="9")
    sweep.train((0.6, 0.4), loss="triplet", seed=2, base=replaced)
    with pytest.raises(
        InputError, match=r"run-2.*SST2Retrieval\.json: the reference encoder"
    ) as raised:
        sweep.text()
    for digest in (E5.digest, replaced.digest):
        assert digest in str(raised.value)
    assert "delete the result" in str(raised.value)


def test_a_training_measured_with_another_base_than_the_plan_names_is_refused(
    sweep: Sweep,
) -> None:
    sweep.base(E5, (0.5, 0.5))
    sweep.train((0.6, 0.4), loss="triplet", base=replace(E5, weights="9"))
    sweep.link(0, 1)
    with pytest.raises(
        InputError, match=f"according to the plan the base has the digest {E5.digest}; delete"
    ):
        sweep.text()


def test_a_sweep_without_results_or_trainings_says_so(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    with pytest.raises(InputError, match=r"no training runs; use `leaderboard .*results`"):
        sweep.text()
    sweep.train(None, loss="triplet", task="irony")
    with pytest.raises(InputError, match="no results yet; see `sweep status"):
        sweep.text()


def test_the_command_shows_tables_of_a_sweep_and_boards_of_results(
    sweep: Sweep, bench: Bench, tmp_path: Path
) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.7, 0.5), loss="triplet")
    sweep.fail(sweep.train(None, loss="mnrl"))
    sweep.train(None, loss="contrastive")
    done = bench("leaderboard", sweep.folder, "--title", "Mine", "--where", "loss=triplet")
    assert (done.code, done.err) == (0, "")
    assert done.out == sweep.text("loss=triplet").replace("# Made up", "# Mine")
    written = bench("leaderboard", sweep.folder, "-o", tmp_path / "t.md", "--weighting", "uniform")
    assert written.err == f"wrote {tmp_path / 't.md'}\n"
    assert (tmp_path / "t.md").read_text() == sweep.text(weighting="uniform")
    said = json.loads(bench("leaderboard", sweep.folder, "--json").out)
    assert {key: said[key] for key in ("unit", "title", "weighting")} == {
        "unit": "fraction",
        "title": "Made up",
        "weighting": "linear",
    }
    base, first, failed, left = said["records"]
    assert isinstance(base["k"], int)
    assert base == {
        "kind": "evaluation",
        "settings": {"model": "org/e5"},
        "encoder": "org/e5",
        "task": "sst2",
        "k": 16,
        "P": 0.6,
        "P_std": 0.25,
        "S": 0.8,
        "S_std": 0.02,
        "state": "done",
    }
    settings = {"recipe": "margins", "model": "org/e5", "task": "sst2", "loss": "triplet"}
    assert first["settings"] == settings
    assert (first["encoder"], first["P"], first["S"], first["state"]) == ("run-1", 0.7, 0.5, "done")
    assert (failed["P"], failed["P_std"], failed["k"]) == (None, None, None)
    assert [failed["state"], left["state"]] == ["failed", "left"]
    board = bench("leaderboard", sweep.folder / "results")
    assert board.out.startswith("# Polarity leaderboard\n")


@pytest.mark.parametrize("option", ["--tasks=sst2", "--models=e5"])
def test_what_only_boards_have_is_refused_of_a_sweep(
    sweep: Sweep, bench: Bench, option: str
) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    done = bench("leaderboard", sweep.folder, option)
    flag, _, value = option.partition("=")
    assert done.code == 2
    assert f"{flag} {value}: only boards of results have this selection; leave it out" in done.err
    refused = bench("leaderboard", sweep.folder / "results", "--where", "loss=triplet")
    assert refused.code == 2
    assert "--where loss=triplet: " in refused.err
    assert "is not the folder of a sweep" in refused.err


def test_tables_of_a_sweep_fit_the_terminal(
    sweep: Sweep, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task in ("sst2", "irony", "contrast"):
        sweep.train((0.7, 0.5), loss="triplet", task=task)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    done = bench("leaderboard", sweep.folder)
    assert max(len(row) for row in done.out.splitlines() if row.startswith("|")) <= 60
    assert "Too wide to show here, see --wide: e5, contrast\n" in done.out
    wide = bench("leaderboard", sweep.folder, "--wide").out
    assert tables(wide)[0][0] == ["loss", "e5, sst2", "e5, irony", "e5, contrast"]


def test_configurations_are_drawn_between_their_base_and_what_is_published(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.9, 0.4), loss="triplet", margin=0.1)
    sweep.train((0.7, 0.6), loss="mnrl")
    (sweep.folder / "published.csv").write_text(
        "name,model,task,score,value,source,twin\n"
        'Theirs,org/e5,sst2,polarity,85.5,"A & B, table 5","loss=triplet,margin=0.1"\n'
        'Theirs,org/e5,sst2,similarity,42,"A & B, table 6","loss=triplet,margin=0.1"\n'
    )
    text = sweep.text()
    (plane,) = sweep_board(read_sweep(sweep.folder)).planes
    found = {(mark.name, mark.role, mark.p, mark.s, mark.tuned) for mark in plane.marks}
    assert found == {
        ("reference", "base", 0.6, 0.8, False),
        ("triplet 0.1", "encoder", 0.9, 0.4, True),
        ("mnrl", "encoder", 0.7, 0.6, True),
        ("Theirs", "published", 0.855, 0.42, False),
    }
    rows = column(tables(text)[0], "e5, sst2")
    assert rows["*Theirs, as published \\[1\\]*"] == "*85.5* (+4.5)"
    assert rows["triplet"] == "**90.0** <sub>25.0</sub>"
    assert "\\[2\\] A &amp; B, table 6." in text


@pytest.mark.parametrize(
    ("grid", "copied", "command"),
    [
        ("/home/me/two losses.toml", False, "polarity-bench sweep 'two losses.toml'"),
        ("/home/me/losses.toml", True, "polarity-bench sweep grid.toml"),
        (str(SHIPPED["smoke"]), False, "polarity-bench sweep smoke"),
        ("", False, "polarity-bench sweep grid.toml"),
    ],
)
def test_rows_name_the_grid_that_made_them(
    sweep: Sweep, grid: str, copied: bool, command: str
) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.9, 0.4), loss="triplet")
    write_plan(SweepPlan("Made up", sweep.items, grid), sweep.folder)
    if copied:
        (sweep.folder / "grid.toml").touch()
    details = sweep_board(read_sweep(sweep.folder)).details.values()
    assert {detail.command for detail in details} == {command}


def test_published_columns_of_models_that_nothing_is_trained_of(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.9, 0.4), loss="triplet", margin=0.1)
    (sweep.folder / "board.toml").write_text('models = ["gte", "org/e5"]\n')
    (sweep.folder / "published.csv").write_text(
        "name,model,task,score,value,source,twin\n"
        'Theirs before,gte,sst2,polarity,77,"A & B, table 5",\n'
        'Theirs,gte,sst2,polarity,88,"A & B, table 5",\n'
        'Theirs,org/e5,sst2,polarity,85.5,"A & B, table 5","loss=triplet,margin=0.1"\n'
        'Theirs after,gte,sst2,polarity,66,"A & B, table 5",\n'
    )
    table = tables(sweep.text())[0]
    assert table[0] == ["loss", "gte, sst2", "e5, sst2"]
    assert table[1:] == [
        ["*Theirs before, as published \\[1\\]*", "*77.0*", "-"],
        ["*reference*", "-", "*60.0* <sub>25.0</sub>"],
        ["triplet", "-", "90.0 <sub>25.0</sub>"],
        ["*Theirs, as published \\[1\\]*", "*88.0*", "*85.5* (+4.5)"],
        ["*Theirs after, as published \\[1\\]*", "*66.0*", "-"],
    ]


def test_published_numbers_by_examples_stand_below_the_row_they_name(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    for warm_up in (0.1, 0.5):
        sweep.train((0.7, 0.5), loss="triplet", examples=500, warm_up=warm_up)
        sweep.train((0.9, 0.3), loss="triplet", examples=2000, warm_up=warm_up)
    (sweep.folder / "published.csv").write_text(
        "name,task,score,value,std,min,max,source,twin,note\n"
        '500,sst2,polarity,75.7,7.5,63,81.5,"A, table 4","examples=500,warm_up=0.5",of theirs\n'
        '500,,similarity,75.1,,46.6,85.5,"A, table 4","examples=500,warm_up=0.5",of theirs\n'
    )
    text = sweep.text()
    assert text.count("as published") == 1
    shown = next(each for each in tables(text) if "published" in str(each))
    assert shown[3] == [
        *("*500, as published \\[1\\]*", "*75.7* <sub>7.5</sub>", "*63.0*", "*81.5*"),
        *("*75.1*", "*46.6*", "*85.5*", "-"),
    ]
    assert "\\[1\\] A, table 4; of theirs." in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("500,sst2,P,75,A,examples=500", "line 2: unknown score 'P'"),
        ("500,sst2,polarity,75,,examples=500", "line 2: the citation is missing"),
        ("500,sst2,polarity,x,A,examples=500", "line 2: 'value' must be a percentage .* got 'x'"),
        (
            "500,sst2,polarity,75,A,example=500",
            "`twin` must contain `examples`, .* got 'example=500'",
        ),
        (
            "500,sst2,polarity,75,A,examples=50",
            "line 2: `twin` examples=50: no training run has this examples; did you mean",
        ),
        (
            "500,sst2,polarity,75,A,examples=500\n500,sst2,polarity,76,A,examples=500",
            "line 3: this line repeats .*line 2",
        ),
        (
            '500,sst2,polarity,75,A,"examples=500,loss=triplet"\n500,sst2,polarity,76,A,examples=500',
            "line 3: this line repeats .*line 2",
        ),
        (
            "500,sst2,polarity,75,A,loss=triplet",
            "`twin` must contain `examples`, .* got 'loss=triplet'",
        ),
    ],
)
def test_wrong_published_numbers_by_examples_are_refused(
    sweep: Sweep, line: str, message: str
) -> None:
    sweep.train((0.7, 0.5), loss="triplet", examples=500)
    sweep.train((0.7, 0.5), loss="triplet", examples=2000)
    (sweep.folder / "published.csv").write_text(f"name,task,score,value,source,twin\n{line}\n")
    with pytest.raises(InputError, match=message):
        read_sweep(sweep.folder)


def test_published_numbers_by_examples_want_a_table(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet", examples=500)
    (sweep.folder / "published.csv").write_text(
        "name,task,score,value,source,twin\n500,sst2,polarity,75,A,examples=500\n"
    )
    with pytest.raises(InputError, match="all training runs have the same number"):
        read_sweep(sweep.folder)


def test_a_base_of_which_there_is_nothing_is_refused(sweep: Sweep) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    (sweep.folder / "board.toml").write_text('models = ["org/e55"]')
    with pytest.raises(
        InputError, match=r"no training run and .* the base 'org/e55'; did you mean 'org/e5'"
    ):
        read_sweep(sweep.folder)


def test_some_of_the_trainings_stand_beside_what_is_published_of_them(sweep: Sweep) -> None:
    for task in ("sst2", "irony"):
        for n in (500, 2000):
            sweep.train((0.7, 0.5), loss="triplet", examples=n, task=task)
            sweep.train((0.6, 0.5), loss="mnrl", examples=n, task=task)
    (sweep.folder / "published.csv").write_text(
        "name,model,task,score,value,source,twin\n"
        'Triplet,org/e5,sst2,polarity,85,"A, table 5","loss=triplet,examples=500"\n'
        'Triplet,org/e5,irony,polarity,84,"A, table 5","loss=triplet,examples=500"\n'
        'Ranking,org/e5,sst2,polarity,83,"A, table 5","loss=mnrl,examples=500"\n'
        "2000,,sst2,polarity,75,A,examples=2000\n"
    )
    kept = read_sweep(sweep.folder, where=["examples=500", "task=sst2", "loss=triplet"])
    published = [(each["encoder"], each["task"]) for each in kept.of_kind("published")]
    assert published == [("Triplet", "sst2")]
    (table, _) = sweep_board(kept).tables
    assert table.heads == [("loss", ["reference", "triplet", "Triplet, as published [1]"])]


@pytest.mark.parametrize("key", ['tasks = ["sst2"]', 'sort = "P"', 'encoders = ["e5"]'])
def test_what_says_nothing_of_a_sweep_is_refused(sweep: Sweep, key: str) -> None:
    sweep.train((0.7, 0.5), loss="triplet")
    (sweep.folder / "board.toml").write_text(key)
    with pytest.raises(InputError, match=r"unknown key '(tasks|sort|encoders)'"):
        read_sweep(sweep.folder)


def test_lines_by_examples_wait_for_all_that_is_planned(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.7, 0.5), loss="triplet", margin=0.1, examples=500)
    sweep.train((0.8, 0.4), loss="triplet", margin=1.0, examples=500)
    sweep.train((0.9, 0.3), loss="triplet", margin=0.1, examples=2000)
    sweep.train(None, loss="triplet", margin=1.0, examples=2000)
    drawn = sweep_board(read_sweep(sweep.folder)).charts
    lines = [each for each in drawn if isinstance(each, LineChart)]
    assert [each.title for each in lines] == [
        "Losses: P by examples, sst2",
        "Losses: S by examples, sst2",
    ]
    (series,) = lines[0].series
    assert (list(lines[0].x), series.name) == ([500, 2000], "triplet")
    assert series.values[0] == pytest.approx(0.75)
    assert math.isnan(series.values[1])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "T,org/e5,sst,polarity,80,T,",
            r"line 2: the sweep has no training runs for org/e5, sst; did you mean",
        ),
        ("T,org/e5,sst2,P,80,T,", "line 2: unknown score 'P'"),
        ("T,org/e5,sst2,polarity,high,T,", "line 2: 'value' must be a percentage .* got 'high'"),
        ("T,org/e5,sst2,polarity,80,,", "line 2: the citation is missing"),
        (
            "T,org/e5,sst2,polarity,80,T,los=mnrl",
            "line 2: `twin` los=mnrl: no training run has the setting 'los'; did you mean 'loss'",
        ),
        (
            "T,org/e5,sst2,polarity,80,T,loss=mnrl",
            "line 2: `twin` loss=mnrl: no training run has this loss",
        ),
        (
            "T,org/e5,sst2,polarity,80,T,loss=triplet",
            "line 2: `twin` matches training runs with 2 different",
        ),
        (
            "T,org/e5,sst2,polarity,80,T,\nT,org/e5,sst2,polarity,81,T,",
            "line 3: this line repeats .*line 2",
        ),
    ],
)
def test_wrong_published_numbers_are_refused(sweep: Sweep, line: str, message: str) -> None:
    sweep.train((0.9, 0.4), loss="triplet", margin=0.1)
    sweep.train((0.8, 0.5), loss="triplet", margin=1.0)
    (sweep.folder / "published.csv").write_text(
        f"name,model,task,score,value,source,twin\n{line}\n"
    )
    with pytest.raises(InputError, match=message):
        read_sweep(sweep.folder)


def test_a_plan_whose_links_and_resolved_settings_are_missing_has_tables(sweep: Sweep) -> None:
    sweep.base(E5, (0.6, 0.8))
    sweep.train((0.7, 0.5), loss="triplet")
    sweep.items[1] = replace(sweep.items[1], after="another", resolved={})
    write_plan(SweepPlan("Made up", sweep.items), sweep.folder)
    cells = column(tables(sweep.text())[0], "e5, sst2")
    assert cells == {"*reference*": "-", "triplet": "70.0 <sub>25.0</sub>"}
