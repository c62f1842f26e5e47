"""The command line. Results go to stdout, progress and remarks to stderr.

The exit code is 0 for success, 1 if a task failed or a check did not pass, and 2 for unusable
input. Error messages go to stderr; with `--json`, they are also printed on stdout as
`{"error": ...}`. Commands import heavy packages only when they run, so `--help` is fast.

Only the command line uses flags. Other packages name fields in backticks in their error messages,
and `output.fields_to_flags` replaces the fields by flags.
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
from polarity_bench.cli.check_plugin import check_plugin
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
from polarity_bench.cli.options import Commands
from polarity_bench.cli.output import fields_to_flags, print_json, remark, warnings_as_remarks
from polarity_bench.cli.predict import predict
from polarity_bench.cli.run import run
from polarity_bench.cli.sweep import sweep_app
from polarity_bench.cli.tasks import tasks_app
from polarity_bench.cli.texts import write_texts
from polarity_bench.cli.train import RecipeCommand, train
from polarity_bench.cli.verify import verify
from polarity_bench.errors import InputError, InputWarning, cut_long_lines
from polarity_bench.files import SET_FOLDERS, cannot_write
from polarity_bench.registers import plugin_failure

_INTERRUPTED = 130
_COLLECT_AFTER = 100_000
"""New objects between two garbage collections. Importing torch creates millions, but no garbage."""

app = Commands(
    name="polarity-bench",
    help="Measure whether sentence encoders distinguish polarity without losing meaning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich would read [default: ...] as markup
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
app.command("test")(check_plugin)
app.command("texts")(write_texts)
app.command(cls=RecipeCommand, options_metavar="[RECIPE] [OPTIONS]")(train)
for publish in (build_boards, check_boards, add_results, diff_boards, export_board):
    leaderboard_app.command(publish.__name__.partition("_")[0])(publish)
for group in (leaderboard_app, sweep_app, tasks_app, data_app, cache_app):
    app.add_typer(group)


def main() -> None:
    """Run the command line. For unusable input, print one message and exit with code 2."""
    as_json = "--json" in sys.argv[1:]
    gc.set_threshold(_COLLECT_AFTER)
    code: int | None
    try:
        with warnings_as_remarks(InputWarning):
            code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):  # the type depends on the version of Typer
        code = _INTERRUPTED
    except InputError as error:
        _refuse(fields_to_flags(str(error)), as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        refused: Any = error
        if cannot_write(error):  # such as the cache that mteb makes when it is imported
            _refuse(f"{error}; if this is a cache, {SET_FOLDERS}", as_json)
        if not hasattr(refused, "format_message"):  # only errors of the parser have this method
            if blamed := plugin_failure(error):
                _refuse(fields_to_flags(str(blamed)), as_json)
            raise
        refused.message = cut_long_lines(refused.message)
        if as_json:
            _refuse(refused.format_message(), as_json)
        refused.show()
        code = refused.exit_code
    if code == _INTERRUPTED:
        print("interrupted; run the same command again to resume", file=sys.stderr)
    sys.exit(code)


def _refuse(message: str, as_json: bool) -> NoReturn:
    remark(f"error: {message}")
    if as_json:
        print_json({"error": message})
    sys.exit(2)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, "Print the version and exit."] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
