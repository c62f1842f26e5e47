"""The command line. Results go to stdout, progress and remarks to stderr.

Exit codes: 0 all is well; 1 a task failed while others went on; 2 the input cannot be used: the
message is on stderr, and where JSON is asked for, it is `{"error": ...}` on stdout too.
Everything heavy is imported inside the commands, so that `--help` is instant. Options have names
only here: errors from below name fields, in backticks, which `output.in_flags` turns into flags.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from polarity_bench import __version__
from polarity_bench.cli.blend import blend
from polarity_bench.cli.cache import cache_app
from polarity_bench.cli.card import card
from polarity_bench.cli.compare import compare
from polarity_bench.cli.data import data_app
from polarity_bench.cli.examples import examples
from polarity_bench.cli.explain import explain
from polarity_bench.cli.explain_score import explain_score
from polarity_bench.cli.fewshot import fewshot
from polarity_bench.cli.leaderboard import (
    add_results,
    build_boards,
    check_boards,
    diff_boards,
    export_board,
    leaderboard_app,
)
from polarity_bench.cli.neighbours import neighbours
from polarity_bench.cli.options import Commands, by_member
from polarity_bench.cli.output import in_flags, print_json, remark, warnings_as_remarks
from polarity_bench.cli.predict import predict
from polarity_bench.cli.run import run
from polarity_bench.cli.sweep import sweep_app
from polarity_bench.cli.tasks import tasks_app
from polarity_bench.cli.train import train
from polarity_bench.cli.verify import verify
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.training.recipes import RECIPES

_INTERRUPTED = 130
_COLLECT_AFTER = 100_000
"""Objects made between two searches for garbage: torch's imports make millions, and none."""

app = Commands(
    name="polarity-bench",
    help="Can a sentence encoder tell polarity without forgetting meaning?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take [default: ...] for markup
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    run,
    blend,
    neighbours,
    predict,
    fewshot,
    examples,
    compare,
    card,
    explain,
    explain_score,
    verify,
):
    app.command()(command)
train_command = by_member(RECIPES, "recipe", "margins")
app.command(cls=train_command, options_metavar="[RECIPE] [OPTIONS]")(train)
for publish in (build_boards, check_boards, add_results, diff_boards, export_board):
    leaderboard_app.command(publish.__name__.partition("_")[0])(publish)
groups = {
    "leaderboard": leaderboard_app,
    "sweep": sweep_app,
    "tasks": tasks_app,
    "data": data_app,
    "cache": cache_app,
}
for name, group in groups.items():
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line; bad input ends with one message and exit code 2."""
    as_json = "--json" in sys.argv[1:]
    gc.set_threshold(_COLLECT_AFTER)
    code: int | None
    try:
        with warnings_as_remarks(InputWarning):
            code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):  # as the release of Typer has it
        code = _INTERRUPTED
    except InputError as error:
        _refuse(in_flags(str(error)), as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        refused: Any = error
        if not hasattr(refused, "format_message"):  # as all have that the parser raises
            raise
        if as_json:
            _refuse(refused.format_message(), as_json)
        refused.show()
        code = refused.exit_code
    if code == _INTERRUPTED:
        print("interrupted; the same command goes on where it was stopped", file=sys.stderr)
    sys.exit(code)


def _refuse(message: str, as_json: bool) -> NoReturn:
    remark(f"error: {message}")
    if as_json:
        print_json({"error": message})
    sys.exit(2)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, "Print the version."] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
