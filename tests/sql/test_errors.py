"""What a user reads when a script is wrong: every case of bad_scripts.txt and bad_joins.txt, word for word."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import pytest

from millstream.compile import compile_script
from millstream.errors import NotSupportedYet, ScriptError, ScriptErrors
from millstream.model import SETTINGS
from millstream.model.functions import BUILTINS

STREAMS = """\
CREATE STREAM T (Id INT, Name STRING, Value DOUBLE, Ok BOOLEAN, Code INT, Place STRUCT<city: STRING>, \
Ts TIMESTAMP, At TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM H (Id INT, Name STRING, Value DOUBLE, Code STRING, Ts TIMESTAMP) WITH (time = 'Ts');
"""
THIRD = """\
CREATE STREAM P (Id BIGINT, Name STRING, Level FLOAT, Code STRING, Seen TIMESTAMP) WITH (time = 'Seen');
"""


def _cases(file: str, streams: str) -> Iterator[tuple[str, str]]:
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    for case in text.split("\n=== ")[1:]:
        name, _, script = case.partition("\n")
        yield name.removesuffix(" (alone)"), ("" if name.endswith(" (alone)") else streams) + script.rstrip("\n")


SCRIPTS = dict(_cases("bad_scripts.txt", STREAMS))
JOINS = dict(_cases("bad_joins.txt", STREAMS + THIRD))
CASES = {**SCRIPTS, **JOINS}


def errors_of(script: str) -> tuple[ScriptError, ...]:
    with pytest.raises(ScriptErrors) as caught:
        compile_script(script)
    return caught.value.errors


def _shown(name: str, script: str) -> str:
    """The lines of a case, and under each line its errors with a mark at their column."""
    errors = errors_of(script)
    head = _head(script)
    shown = [f"=== {name}"]
    for number, line in enumerate(script.split("\n"), start=1):
        here = [error for error in errors if error.where.line == number]
        if number > head:
            shown.append(f"{number:2} | {line}".rstrip())
        for error in here:
            shown += [f"   | {' ' * (error.where.column - 1)}^", _shortened(str(error))]
    return "\n".join(shown)


def _head(script: str) -> int:
    """How many lines stand before those of the case."""
    return next((streams.count("\n") for streams in (STREAMS + THIRD, STREAMS) if script.startswith(streams)), 0)


def _shortened(message: str) -> str:
    """Without the two lists that grow with the product."""
    settings = ", ".join(setting.name for setting in SETTINGS)
    return message.replace(", ".join(sorted(BUILTINS)), "(all functions)").replace(settings, "(all settings)")


def test_every_error_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden("errors.txt", "\n\n".join(_shown(name, script) for name, script in SCRIPTS.items()))


def test_every_error_of_several_streams_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden("join_errors.txt", "\n\n".join(_shown(name, script) for name, script in JOINS.items()))


def test_no_case_hides_another() -> None:
    assert not set(SCRIPTS) & set(JOINS)


@pytest.mark.parametrize("name", CASES)
def test_every_error_has_four_parts_and_a_place_in_the_text(name: str) -> None:
    lines = CASES[name].split("\n")
    for error in errors_of(CASES[name]):
        assert all(part.strip() for part in (error.found, error.valid, error.todo))
        assert error.todo.endswith((".", "?", ";"))
        assert "\n" not in str(error)
        assert 1 <= error.where.line <= len(lines)
        assert 1 <= error.where.column <= len(lines[error.where.line - 1]) + 1


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].startswith(STREAMS)])
def test_errors_stand_in_the_part_that_is_wrong(name: str) -> None:
    assert all(error.where.line > _head(CASES[name]) for error in errors_of(CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_no_error_speaks_of_the_parser(name: str) -> None:
    for error in errors_of(CASES[name]):
        assert not any(word in str(error) for word in ("sqlglot", "<class", "TokenType", "None", "Expression"))


@pytest.mark.parametrize(("name", "missing"), [("window in rows", "ROWS")])
def test_what_no_runner_can_do_is_called_not_supported_yet(name: str, missing: str) -> None:
    (error,) = errors_of(CASES[name])
    assert isinstance(error, NotSupportedYet)
    assert missing in error.found


@pytest.mark.parametrize(
    ("name", "known"),
    [("unknown function", sorted(BUILTINS)), ("unknown setting", [setting.name for setting in SETTINGS])],
)
def test_an_unknown_name_is_answered_with_all_that_are_known(name: str, known: list[str]) -> None:
    (error,) = errors_of(CASES[name])
    assert error.valid.endswith(", ".join(known))


def test_a_query_is_named_in_its_errors() -> None:
    assert {error.where.query for error in errors_of(CASES["several errors in one query"])} == {"q"}


def test_all_errors_of_a_script_come_at_once_and_in_the_order_of_the_text() -> None:
    places = [(error.where.line, error.where.column) for error in errors_of(CASES["several statements with errors"])]
    assert len(places) > 5
    assert places == sorted(places)


QUERY = STREAMS + "CREATE QUERY q AS SELECT {output} FROM T, H WHERE T.Id = H.Id AND {condition} WINDOW 1 MINUTE"


def test_an_error_is_told_once() -> None:
    script = QUERY.format(output="CASE X WHEN 1 THEN 2 WHEN 3 THEN 4 END AS c", condition="T.Ok")
    assert [error.found for error in errors_of(script)] == ['no column "X" in T or H']


@pytest.mark.parametrize(
    "condition",
    [
        f"{'(' * 500}T.Ok{')' * 500}",
        f"T.Value > {'+'.join('1' * 5000)}",
        f"T.Value > {'+'.join('1' * 300)}",
        *(f"T.Value > {'- ' * count}1" for count in (101, 290, 400)),
        *(f"{'NOT ' * count}T.Ok" for count in (101, 250)),
        f"{'abs(' * 120}T.Id{')' * 120} = 1",
        " || ".join(["T.Name"] * 150) + " = 'a'",
    ],
)
def test_deep_nesting_is_refused(condition: str) -> None:
    for output, where in (("T.Id", condition), (f"{condition} AS c", "T.Ok")):
        (error,) = errors_of(QUERY.format(output=output, condition=where))
        assert "nested too deeply" in error.found
        assert (error.where.query, error.where.line) == ("q", QUERY.count("\n") + 1)


@pytest.mark.parametrize(("opened", "closed"), [("(", ")"), ("abs(", ")"), ("CASE WHEN T.Ok THEN ", " END")])
def test_brackets_nest_some_fifty_levels_as_the_message_and_the_manual_say(opened: str, closed: str) -> None:
    def nested(levels: int) -> str:
        return QUERY.format(output=f"{opened * levels}T.Id{closed * levels} AS c", condition="T.Ok")

    assert len(compile_script(nested(50)).members) == 1
    (error,) = errors_of(nested(100))
    assert (
        error.valid == "an expression nests up to 100 levels, of which brackets, functions and CASEs may be some fifty"
    )
    manual = (Path(__file__).parents[2] / "docs/language.md").read_text(encoding="utf-8")
    words = " ".join(manual.split())
    assert "nests up to 100 levels" in words
    assert "about fifty of them may be parentheses, functions and `CASE`s" in words


@pytest.mark.parametrize("condition", [f"T.Value > {'- ' * 95}T.Id", f"T.Value > {'+'.join(['T.Id'] * 97)}"])
def test_what_is_not_refused_can_be_used_in_every_way(condition: str) -> None:
    script = QUERY.format(output=f"{condition} AS c", condition=condition)
    plan, again = compile_script(script), compile_script(script)
    assert pickle.dumps(plan)
    assert hash(plan.script.queries[0]) == hash(again.script.queries[0])
    assert plan == again
    assert repr(plan)


@pytest.mark.parametrize(
    "output",
    [
        reduce(lambda inner, _: f"CASE {inner} WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END", range(25), "T.Id"),
        reduce(lambda inner, _: f"({inner}) BETWEEN TRUE AND FALSE", range(30), "T.Ok"),
    ],
)
def test_what_grows_beyond_measure_when_written_out_is_refused(output: str) -> None:
    (error,) = errors_of(QUERY.format(output=f"{output} AS c", condition="T.Ok"))
    assert "the expression is too large" in error.found


REFUSED = {
    "round(T.Value, H.Id)": "argument 2 of round is not a constant",
    "substring(T.Name, H.Id)": "argument 2 of substring is not a constant",
    "substring(T.Name, 1, T.Id)": "argument 3 of substring is not a constant",
    "replace(T.Name, H.Name, 'a')": "argument 2 of replace is not a constant",
    "startswith(T.Name, H.Name)": "argument 2 of startswith is not a constant",
    "T.Name LIKE NULL": "LIKE without a fixed pattern",
    r"T.Name LIKE 'a\b'": "has a lone backslash",
    "T.Place = T.Place": "cannot be compared",
    "T.Place IN (T.Place)": "cannot be compared",
    "T.Place IN (NULL)": "cannot be compared",
    "1 IN (T.Id, T.Name, 2.5)": "INT cannot be compared with STRING",
    "NULL IN (T.Id, T.Name)": "INT cannot be compared with STRING",
    "'x' IN (T.Ts, NULL)": "'x' is not a TIMESTAMP",
    "1 IN (CAST(T.Id AS DECIMAL(38, 36)), 1000)": "DECIMAL(38, 36) cannot be compared with DECIMAL(4, 0)",
    "1 IN (CAST(T.Id AS DECIMAL(38, 30)), CAST(T.Id AS BIGINT))": "DECIMAL(38, 30) cannot be compared with BIGINT",
    "greatest(T.Place, T.Place)": "greatest got STRUCT",
    "nullif(T.Place, T.Place)": "nullif got STRUCT",
    "CAST(T.Place AS STRING)": "CAST of STRUCT",
    "CAST(T.Ts - H.Ts AS STRING)": "CAST of INTERVAL to STRING",
    "CAST(T.Ok AS TIMESTAMP)": "CAST of BOOLEAN to TIMESTAMP",
    "CAST(T.Id AS DATE)": "CAST of INT to DATE",
    "CAST(T.Ok AS BINARY)": "CAST of BOOLEAN to BINARY",
    "NULL": "this is always NULL",
    "greatest(NULL, NULL)": "this is always NULL",
    "nullif(NULL, 1)": "this is always NULL",
    "coalesce(NULL)": "this is always NULL",
    "CASE WHEN T.Ok THEN NULL END": "this is always NULL",
    "CAST(1 AS DECIMAL(38, 30)) = CAST(T.Id AS BIGINT)": "cannot be compared",
    "coalesce(CAST(1 AS DECIMAL(38, 30)), CAST(T.Id AS BIGINT))": "coalesce got",
    "if(T.Ok, CAST(1 AS DECIMAL(38, 30)), CAST(T.Id AS BIGINT))": "no type in common",
    "least(CAST(1 AS DECIMAL(20, 4)), 1, CAST(1 AS DECIMAL(38, 0)))": "least got DECIMAL(20, 4) and DECIMAL(38, 0)",
    "round(CAST(T.Id AS DECIMAL(38, 30)), 3000000000)": "round got BIGINT as argument 2",
    "nullif(CAST(1 AS DECIMAL(38, 30)), CAST(T.Id AS BIGINT))": "nullif got DECIMAL(38, 30) and BIGINT",
    "CAST(T.Id AS DECIMAL(38, 0)) % CAST(1 AS DECIMAL(38, 0))": "DECIMAL(38, 0) % DECIMAL(38, 0)",
    "-9223372036854775809": "too large",
}


@pytest.mark.parametrize("output", REFUSED)
def test_what_could_not_run_is_refused_where_it_stands(output: str) -> None:
    (error,) = errors_of(QUERY.format(output=f"T.Id, {output} AS c", condition="T.Ok"))
    assert REFUSED[output] in error.found
    assert error.valid
    assert error.todo
    assert error.where.line == QUERY.count("\n") + 1
    start = QUERY.split("\n")[-1].index("{output}") + len("T.Id, ")
    assert start < error.where.column <= start + len(output)


@pytest.mark.parametrize("key", ["T.Place = H.Place", "CAST(T.Id AS DECIMAL(38, 30)) = CAST(H.Id AS BIGINT)"])
def test_a_join_key_has_a_type_for_both_sides(key: str) -> None:
    streams = STREAMS.replace("Place", "Place").replace(
        "CREATE STREAM H (", "CREATE STREAM H (Place STRUCT<city: STRING>, "
    )
    script = f"{streams}CREATE QUERY q AS SELECT T.Id FROM T, H WHERE {key} WINDOW 1 MINUTE"
    assert any("cannot be compared" in error.found for error in errors_of(script))


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_long_runs_are_not_deep(word: str) -> None:
    plan = compile_script(QUERY.format(output="T.Id", condition=f"({f' {word} '.join(['T.Ok'] * 2000)})"))
    assert len(plan.members) == 1


@pytest.mark.parametrize("levels", [31, 300])
def test_a_type_nests_some_levels(levels: int) -> None:
    column = f"CREATE STREAM D (Deep {'ARRAY<' * levels}INT{' >' * levels}, Ts TIMESTAMP) WITH (time = 'Ts')"
    (error,) = errors_of(column)
    assert "nested too deeply" in error.found
    assert (error.where.line, error.where.column) == (1, column.index("ARRAY") + 30 * len("ARRAY<") + 7)
