"""From a file named on the command line to its plan, with errors shown at their lines."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from millstream.compile import compile_script
from millstream.engine.trial import try_out
from millstream.errors import MillstreamError, PipelineFailed, QueryFailed, ScriptError, ScriptErrors, Where
from millstream.model.functions import Function
from millstream.pipeline.preflight import wrong_ends
from millstream.plan import Calibration, Plan
from millstream.plan.calibration import load

Command = Callable[..., Any]


class ErrorsShown(click.Group):
    """Errors end the command with their message: with exit code 2 for what a user can correct, 1 for failures."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ScriptError as error:
            click.echo(f"error: {error}", err=True)
            return ctx.exit(2)
        except ScriptErrors as found:
            for one in found.errors:
                click.echo(f"error: {one}", err=True)
            return ctx.exit(2)
        except (QueryFailed, PipelineFailed) as error:
            click.echo(f"error: {error}", err=True)
            return ctx.exit(1)


functions_option = click.option(
    "--functions",
    multiple=True,
    metavar="FILE.py",
    help="A Python file whose @millstream.function the script may call.",
)


def script_options(command: Command) -> Command:
    """The options of every command that reads a script."""
    for option in (
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Override a setting of the script."
        ),
        functions_option,
        click.argument("file", type=click.Path()),
    ):
        command = option(command)
    return command


def compile_file(file: str, functions: tuple[str, ...] = (), settings: tuple[str, ...] = ()) -> Plan:
    """The plan of a file, with the costs that `millstream calibrate` measured on this machine, if it was run."""
    return compile_text(read_script(file), file, read_functions(functions), read_settings(settings), load())


def compile_text(
    text: str,
    name: str,
    functions: dict[str, Function] | None = None,
    settings: dict[str, str] | None = None,
    calibration: Calibration | None = None,
) -> Plan:
    """The plan; or all errors, each with the line it is about, and exit code 2."""
    with errors_at_their_lines(text, name):
        plan = compile_script(text, functions=functions, settings=settings, calibration=calibration)
        wrong = wrong_ends(plan.script)
        if wrong:
            raise ScriptErrors(wrong)
        try_out(plan, functions)
    return plan


@contextmanager
def errors_at_their_lines(text: str, name: str) -> Iterator[None]:
    """Shows the errors of a text, each with the line it is about, and ends the command with exit code 2."""
    try:
        yield
    except (ScriptError, ScriptErrors) as found:
        errors = found.errors if isinstance(found, ScriptErrors) else (found,)
        for error in errors:
            # An error without a place in the text comes from the command line.
            placed = error if str(error.where) else error.at(Where(file="--set"))
            click.echo(f"error: {placed}", err=True)
            click.echo(_excerpt(text, error.where), err=True, nl=False)
        count = len(errors)
        click.echo(f"{name}: {count} error{'s' if count > 1 else ''}, nothing was started", err=True)
        raise click.exceptions.Exit(2) from None


def _excerpt(text: str, where: Where) -> str:
    """The line of an error with a caret under its column."""
    lines = text.split("\n")
    if not 1 <= where.line <= len(lines):
        return ""
    margin = f"{where.line:5} | "
    line = "".join(letter if letter.isprintable() else " " for letter in lines[where.line - 1])
    first = max(0, where.column - 90)
    shown = line[first : first + 110].rstrip()
    return f"{margin}{shown}\n{' ' * (len(margin) - 2)}| {' ' * (where.column - 1 - first)}^\n"


def read_script(file: str) -> str:
    valid, place = "a script is a UTF-8 text file", Where(file=file)
    try:
        return Path(file).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ScriptError("no such file", valid, "Check the path.", place) from None
    except IsADirectoryError:
        raise ScriptError("this is a directory", valid, "Name a file in it.", place) from None
    except PermissionError:
        raise ScriptError("the file may not be read", valid, "Change its permissions.", place) from None
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is not UTF-8 text"
        raise ScriptError(found, valid, "Save the script as UTF-8.", place) from None
    except OSError as error:
        raise ScriptError(f"the file cannot be read ({error.strerror})", valid, "Check the path.", place) from None


def read_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ScriptError(
                f"--set {pair}", "the form is --set NAME=VALUE", "Write for example --set slicing=memory."
            )
        name = name.strip().lower()
        if name in found:
            raise ScriptError(f"--set {name} stands twice", "each setting is given once", "Remove one of them.")
        found[name] = value.strip()
    return found


def read_functions(files: tuple[str, ...]) -> dict[str, Function]:
    """The functions registered in these files. Only files the user names here are ever run."""
    found: dict[str, Function] = {}
    for number, file in enumerate(files):
        place = Where(file=file)
        spec = importlib.util.spec_from_file_location(f"millstream_functions_{number}", file)
        if not Path(file).is_file() or spec is None or spec.loader is None:
            raise ScriptError("no such Python file", "--functions names a .py file", "Check the path.", place)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except MillstreamError as error:
            raise ScriptError(
                str(error), "functions are registered with @millstream.function", "Correct it.", place
            ) from None
        except (Exception, SystemExit) as error:  # the user's own code may fail in any way
            todo = "Run it with python to see more."
            raise ScriptError(f"{type(error).__name__}: {error}", "the file must run as it is", todo, place) from error
        for value in vars(module).values():
            if isinstance(value, Function) and found.setdefault(value.name, value) is not value:
                raise ScriptError(
                    f"function {value.name} is registered twice", "names of functions differ", "Rename one.", place
                )
    return found
