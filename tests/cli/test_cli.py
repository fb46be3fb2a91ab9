"""`millstream check` and `millstream explain`, as a person types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import millstream
from millstream.cli import main

STREAMS = """\
CREATE STREAM T (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM H (Id INT, Value DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""
GOOD = (
    STREAMS
    + """\
CREATE QUERY near AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
CREATE QUERY far AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 1 HOUR;
"""
)
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in a folder of its own, with the script (if any) as s.sql."""
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str, script: str | bytes | None = None) -> Result:
        if script is not None:
            Path("s.sql").write_bytes(script if isinstance(script, bytes) else script.encode())
        return CliRunner().invoke(main, args)

    return invoke


def refused(result: Result) -> str:
    """What a refused command says; it ends with exit code 2, says nothing else and shows no traceback."""
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr


def test_check_says_what_a_good_script_holds(run: Run) -> None:
    result = run("check", "s.sql", script=GOOD)
    assert result.exit_code == 0
    assert result.stdout.startswith("s.sql: ok, 2 streams, 2 queries, 1 chain, ")
    assert result.stderr == ""


def test_check_takes_a_file_with_a_byte_order_mark_and_windows_lines(run: Run) -> None:
    result = run("check", "s.sql", script=b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert result.exit_code == 0


def test_check_shows_every_error_with_its_line_and_a_mark(run: Run) -> None:
    script = (
        STREAMS
        + """\
CREATE QUERY one AS
\tSELECT T.Vaule FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;
CREATE QUERY two AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 0 SECONDS;
"""
    )
    assert refused(run("check", "s.sql", script=script)) == (
        "error: query 'one', line 4, column 11: no column \"Vaule\" in T; it has Id, Value, Ts."
        ' Did you mean "Value"?\n'
        "    4 |  SELECT T.Vaule FROM T, H WHERE T.Id = H.Id WINDOW 1 MINUTE;\n"
        "      |           ^\n"
        "error: query 'two', line 5, column 68: a window of 0 s holds nothing; a window must be longer than zero."
        " Give a positive length such as 1 MINUTE.\n"
        "    5 | CREATE QUERY two AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 0 SECONDS;\n"
        "      |                                                                    ^\n"
        "s.sql: 2 errors, nothing was started\n"
    )


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("SET nothing = 1;", "SET nothing = 1;"),
        ("SET nothing = 1;\r\n", "SET nothing = 1;"),
        ("-- \x0c \u2028 one line\nSET nothing = 1;", "SET nothing = 1;"),
        (f"/* {'x' * 300} */ SET nothing = 1;", "SET nothing = 1;"),
        ("/* é 😀 */ SET nothing = 1;", "SET nothing = 1;"),
    ],
)
def test_the_mark_stands_under_the_right_letter(run: Run, script: str, line: str) -> None:
    shown, mark, _ = refused(run("check", "s.sql", script=script)).split("\n", 1)[1].split("\n", 2)
    assert shown.endswith(line)
    assert shown[mark.index("^") :].startswith("nothing = 1")


@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("", "the script is empty"),
        ("-- nothing yet\n", "the script is empty"),
        (b"CREATE STREAM T (Id INT) -- \xff", "s.sql: byte 28 is not UTF-8 text"),
        (None, "s.sql: no such file; a script is a UTF-8 text file. Check the path."),
    ],
)
def test_files_that_hold_no_script(run: Run, command: str, script: str | bytes | None, found: str) -> None:
    assert found in refused(run(command, "s.sql", script=script))


def test_a_directory_is_no_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert refused(run("check", "in")) == (
        "error: in: this is a directory; a script is a UTF-8 text file. Name a file in it.\n"
    )


def test_explain_as_text(run: Run) -> None:
    result = run("explain", "s.sql", script=GOOD)
    assert result.exit_code == 0
    assert "near" in result.stdout
    assert "far" in result.stdout


def test_what_next_to_nothing_passes_is_explained_too(run: Run) -> None:
    """By the planner's guess 0.1 to the power of 17 of the rows pass, which is as good as none."""
    conditions = " AND ".join(f"T.k = {number}" for number in range(17))
    stream = "CREATE STREAM {} (k INT, Ts TIMESTAMP) WITH (time = 'Ts');\n"
    select = f"SELECT T.k FROM A T, B U WHERE T.k = U.k AND {conditions} WINDOW 1 SECOND"
    script = stream.format("A") + stream.format("B") + f"CREATE QUERY q AS {select};"
    result = run("explain", "s.sql", script=script)
    assert (result.exit_code, "selection push-down" in result.output) == (0, True)


def test_explain_as_json(run: Run) -> None:
    result = run("explain", "s.sql", "--format", "json", script=GOOD)
    (chain,) = json.loads(result.stdout)["chains"]
    assert sorted(chain["streams"]) == ["H", "T"]
    assert {name for part in chain["slices"] for name in part["queries"]} == {"near", "far"}
    assert {"lo_us", "hi_us", "queries", "access"} <= set(chain["slices"][0])


def test_explain_as_dot(run: Run) -> None:
    result = run("explain", "s.sql", "--format", "dot", script=GOOD)
    assert result.stdout.startswith("digraph")
    assert result.stdout.count("{") == result.stdout.count("}")


def test_explain_knows_no_other_format(run: Run) -> None:
    assert "'text', 'json', 'dot'" in refused(run("explain", "s.sql", "--format", "xml", script=GOOD))


def slices(run: Run, *options: str) -> int:
    return len(
        json.loads(run("explain", "s.sql", "--format", "json", *options, script=GOOD).stdout)["chains"][0]["slices"]
    )


def test_set_overrides_the_script(run: Run) -> None:
    many = slices(run, "--set", "slicing=memory")
    assert slices(run, "--set", "slicing = memory") == many
    assert slices(run, "--set", "costs=paper", "--set", "system_overhead=1e9") < many


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("slicng=cpu", 'error: --set: no setting "slicng"; the settings are slicing, '),
        ("slicing=fast", "error: --set: slicing = 'fast'; slicing is 'cpu' or 'memory'. Choose one.\n"),
        ("slicing", "error: --set slicing; the form is --set NAME=VALUE. Write for example --set slicing=memory.\n"),
        ("=cpu", "error: --set =cpu; the form is --set NAME=VALUE."),
    ],
)
def test_wrong_settings(run: Run, option: str, message: str) -> None:
    assert refused(run("check", "s.sql", "--set", option, script=GOOD)).startswith(message)


def test_a_setting_given_twice(run: Run) -> None:
    shown = refused(run("check", "s.sql", "--set", "slots=2", "--set", "SLOTS=3", script=GOOD))
    assert shown == "error: --set slots stands twice; each setting is given once. Remove one of them.\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "QUERY near",
            "QUERY near WITH (format = 'csv')",
            "query 'near', line 3, column 14: format = 'csv' without a path",
        ),
        ("QUERY near", "QUERY near WITH (header = 1)", "query 'near', line 3, column 25: no option \"header\"; "),
        ("(time = 'Ts'", "(format = 'json', time = 'Ts'", "line 1, column 15: stream T has no path; "),
        ("(time = 'Ts'", "(format = 'jsn', time = 'Ts'", "line 1, column 15: stream T has format = 'jsn'; "),
        ("(time = 'Ts'", "(path = ' ', time = 'Ts'", "line 1, column 15: stream T has path = ''; "),
        ("(time = 'Ts'", "(format = 'kafka', time = 'Ts'", "line 1, column 15: stream T names no servers; "),
        ("(time = 'Ts'", "(value = 'avro', time = 'Ts'", "line 1, column 15: value = 'avro'; "),
    ],
)
def test_check_looks_at_where_rows_come_from_and_go_to(run: Run, old: str, new: str, message: str) -> None:
    assert old in GOOD
    for command in ("check", "explain"):
        assert refused(run(command, "s.sql", script=GOOD.replace(old, new, 1))).startswith(f"error: {message}")


def test_wrong_settings_and_errors_of_the_script_come_together(run: Run) -> None:
    shown = refused(run("check", "s.sql", "--set", "slicing=fast", script="SET nothing = 1;"))
    assert "--set: slicing = 'fast'" in shown
    assert 'line 1, column 5: no setting "nothing"' in shown
    assert "s.sql: 2 errors, nothing was started" in shown


FUNCTIONS = """
import millstream

@millstream.function("BOOLEAN", "DOUBLE", "DOUBLE")
def correlated(a, b):
    return a == b
"""
WITH_FUNCTION = STREAMS + (
    "CREATE QUERY q AS SELECT T.Id FROM T, H WHERE T.Id = H.Id AND correlated(T.Value, H.Value) WINDOW 1 MINUTE;"
)


def test_functions_of_a_file_may_be_called(run: Run, tmp_path: Path) -> None:
    assert 'no function "correlated"' in refused(run("check", "s.sql", script=WITH_FUNCTION))
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    result = run("check", "s.sql", "--functions", "mine.py", script=WITH_FUNCTION)
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "error: mine.py: ZeroDivisionError: division by zero; the file must run as it is."),
        ("def f(:", "error: mine.py: SyntaxError:"),
        ("import nothing_of_that_name", "error: mine.py: ModuleNotFoundError:"),
        ("import sys; sys.exit(3)", "error: mine.py: SystemExit: 3;"),
        ("import millstream; millstream.function('INTT', 'INT')", 'error: mine.py: no type "INTT";'),
        ("import millstream; millstream.function('INT', 'INT', name='abs')(1)", "error: mine.py: there is a built-in"),
    ],
)
def test_files_of_functions_that_do_not_run(run: Run, tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    assert refused(run("check", "s.sql", "--functions", "mine.py", script=GOOD)).startswith(message)


@pytest.mark.parametrize("name", ["missing.py", "s.sql", "."])
def test_files_that_hold_no_functions(run: Run, name: str) -> None:
    message = f"error: {name}: no such Python file; --functions names a .py file. Check the path.\n"
    assert refused(run("check", "s.sql", "--functions", name, script=GOOD)) == message


def test_two_functions_of_one_name(run: Run, tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(FUNCTIONS)
    shown = refused(run("check", "s.sql", "--functions", "one.py", "--functions", "two.py", script=WITH_FUNCTION))
    assert shown == "error: two.py: function correlated is registered twice; names of functions differ. Rename one.\n"


def test_what_no_runner_can_do_yet_is_said_plainly(run: Run) -> None:
    script = STREAMS + "CREATE QUERY q AS SELECT T.Id FROM T, H WHERE T.Id = H.Id WINDOW 100 ROWS;"
    assert "a window in ROWS is not supported yet" in refused(run("check", "s.sql", script=script))


@pytest.mark.parametrize("args", [("chek", "s.sql"), ("check",), ("check", "a", "b"), ("check", "--nothing", "a")])
def test_wrong_commands(run: Run, args: tuple[str, ...]) -> None:
    assert "Error: " in refused(run(*args))


@pytest.mark.parametrize(
    ("args", "shown"), [(("--help",), "check"), (("check", "-h"), "FILE"), (("explain", "--help"), "--format")]
)
def test_help(run: Run, args: tuple[str, ...], shown: str) -> None:
    result = run(*args)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert shown in result.stdout


def test_version(run: Run) -> None:
    assert run("--version").stdout.endswith(f"version {millstream.__version__}\n")


def test_explaining_a_folder_where_no_pipeline_has_been(run: Run) -> None:
    Path("empty").mkdir()
    result = run("explain", "empty")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: empty: no pipeline has been here; ")
