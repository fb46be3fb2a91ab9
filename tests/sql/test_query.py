"""SELECT, FROM and WHERE: sources, keys, selections, residual predicates and result columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from cProfile import Profile
from dataclasses import replace

import pytest

from millstream.errors import ScriptErrors
from millstream.model import Expr, Query, Script
from millstream.model.expr import sources
from millstream.model.types import BIGINT, DOUBLE, STRING

ReadScript = Callable[[str], Script]
ReadQuery = Callable[..., Query]
Shown = Callable[[Query, Iterable[Expr]], list[str]]

W = "WINDOW 1 MINUTE"


def test_join_on_and_from_where_are_the_same_query(query: ReadQuery) -> None:
    where = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND T.Value > 3 AND T.Value > H.Value {W}")
    on = query(f"SELECT T.Id FROM T JOIN H ON T.Id = H.Id AND T.Value > 3 AND T.Value > H.Value {W}")
    mixed = query(f"SELECT T.Id FROM T INNER JOIN H ON T.Id = H.Id WHERE T.Value > H.Value AND T.Value > 3 {W}")
    cross = query(f"SELECT T.Id FROM T CROSS JOIN H WHERE H.Id = T.Id AND 3 < T.Value AND H.Value < T.Value {W}")
    assert where == on == mixed == cross


def test_a_result_column_has_no_control_characters(query: ReadQuery) -> None:
    with pytest.raises(ScriptErrors, match=r"line 6, column \d+: 'a\\x01b' cannot be the name of a column"):
        query(f'SELECT T.Id AS "a\x01b" FROM T, H WHERE T.Id = H.Id {W}')


def test_equalities_are_keys_whichever_side_they_are_written_on(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE H.Zone = T.Zone AND T.Id = H.Id AND T.Zone = H.Zone {W}")
    assert [(key.left, key.right) for key in found.keys] == [
        (key.left, key.right) for key in query(f"SELECT T.Id FROM T JOIN H USING (Zone, Id) {W}").keys
    ]
    assert shown(found, [side for key in found.keys for side in (key.left, key.right)]) == [
        *("T.Id", "H.Id"),
        *("T.Zone", "H.Zone"),
    ]
    assert [key.type for key in found.keys] == [BIGINT, STRING]


def test_keys_may_be_expressions(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE lower(T.Zone) = lower(H.Zone) AND T.Id % 10 = H.Id + 1 {W}")
    assert [shown(found, (key.left, key.right)) for key in found.keys] == [
        ["T.Id % 10", "H.Id + 1"],
        ["lower(T.Zone)", "lower(H.Zone)"],
    ]


@pytest.mark.parametrize(
    "predicate",
    ["T.Value > H.Value", "T.Value + H.Value = 3", "T.Id = H.Id OR T.Ok", "NOT T.Zone = H.Zone", "T.Id - H.Id = T.Id"],
)
def test_other_predicates_over_both_are_residual(query: ReadQuery, predicate: str) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Zone = H.Zone AND ({predicate}) {W}")
    assert len(found.keys) == 1
    assert len(found.residual) == 1


def test_predicates_over_one_source_are_its_selections(query: ReadQuery, shown: Shown) -> None:
    found = query(
        "SELECT T.Id FROM T, H WHERE T.Id = H.Id AND T.Value > 30 AND 70 < H.Value"
        f" AND T.Zone = 'a' AND T.Id = T.Value {W}"
    )
    assert shown(found, found.selections[0]) == ["T.Id = T.Value", "T.Value > 30", "T.Zone = 'a'"]
    assert shown(found, found.selections[1]) == ["H.Value > 70"]
    assert found.residual == ()


def test_a_predicate_given_twice_is_kept_once(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id AND T.Value > 3 AND 3 < T.Value AND TRUE {W}")
    assert shown(found, found.selections[0]) == ["T.Value > 3"]
    assert found.residual == ()


def test_a_join_without_an_equality_has_a_residual_predicate_only(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT T.Id FROM T, H WHERE abs(T.Value - H.Value) < 0.5 {W}")
    assert found.keys == ()
    assert shown(found, found.residual) == ["abs(T.Value - H.Value) < 0.5"]


def test_three_streams_have_keys_over_each_pair_that_is_joined(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT T.Id FROM T JOIN H ON T.Id = H.Id JOIN P ON P.Zone = H.Zone {W}")
    assert [source.alias for source in found.sources] == ["T", "H", "P"]
    assert [shown(found, (key.left, key.right)) for key in found.keys] == [["T.Id", "H.Id"], ["H.Zone", "P.Zone"]]


def test_four_ways_to_write_a_join_of_three_streams(query: ReadQuery) -> None:
    where = query(f"SELECT T.Id FROM T, H, P WHERE T.Id = H.Id AND P.Zone = H.Zone AND T.Value > P.Level {W}")
    on = query(f"SELECT T.Id FROM T JOIN H ON T.Id = H.Id JOIN P ON P.Zone = H.Zone AND T.Value > P.Level {W}")
    late = query(f"SELECT T.Id FROM T JOIN H JOIN P ON P.Zone = H.Zone AND T.Id = H.Id WHERE P.Level < T.Value {W}")
    mixed = query(f"SELECT T.Id FROM T, H JOIN P ON H.Zone = P.Zone AND T.Value > P.Level WHERE H.Id = T.Id {W}")
    assert where == on == late == mixed


@pytest.mark.parametrize(
    ("conditions", "keys", "residual"),
    [
        ("T.Id = H.Id AND H.Id = P.Id AND P.Id = T.Id", 3, 0),
        ("T.Id = H.Id AND T.Zone = H.Zone AND T.Id = P.Id AND T.Zone = P.Zone", 4, 0),
        ("T.Id = H.Id AND T.Value + H.Value > P.Level", 1, 1),
        ("T.Id + H.Id = P.Id", 0, 1),
        ("T.Value > H.Value AND H.Value > P.Level", 0, 2),
    ],
)
def test_any_graph_of_predicates_joins_three_streams(
    query: ReadQuery, conditions: str, keys: int, residual: int
) -> None:
    found = query(f"SELECT T.Id FROM T, H, P WHERE {conditions} {W}")
    assert (len(found.keys), len(found.residual)) == (keys, residual)
    assert all(min(sources(key.left)) < min(sources(key.right)) for key in found.keys)


def test_an_on_sees_its_own_stream_and_those_before(query: ReadQuery, shown: Shown) -> None:
    """Note is a column of H, and of x, which comes later: it is not ambiguous, as in Spark and DuckDB."""
    found = query(f"SELECT T.Id FROM T JOIN H ON T.Id = H.Id AND Note = 'a' JOIN H x ON x.Id = T.Id {W}")
    assert shown(found, found.selections[1]) == ["H.Note = 'a'"]
    with pytest.raises(ScriptErrors, match=r"ambiguous; it may mean H.Note or x.Note"):
        query(f"SELECT T.Id FROM T JOIN H ON T.Id = H.Id JOIN H x ON x.Id = T.Id AND Note = 'a' {W}")


def test_a_stream_joined_with_itself(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT a.Id FROM T a, T AS b WHERE a.Id = b.Id AND b.Ok {W}")
    assert found.sources[0].stream is found.sources[1].stream
    assert shown(found, found.selections[1]) == ["b.Ok"]


@pytest.mark.parametrize(
    "select",
    [
        "select t.ID from T JOIN h on T.id = H.iD where t.vAlue > 3 window 1 minute",
        'SELECT "T"."Id" FROM "T" JOIN `H` ON `T`.`Id` = "H".Id WHERE T."Value" > 3 WINDOW 1 MINUTE',
        "SELECT T.Id -- the key\nFROM T JOIN H /* , P */ ON T.Id = H.Id WHERE T.Value > 3\nWINDOW 1 MINUTE -- end",
        "SELECT Id FROM T JOIN H USING (Id) WHERE T.Value > 3 WINDOW 1 MINUTE",
    ],
)
def test_case_quotes_and_comments_do_not_matter(query: ReadQuery, select: str) -> None:
    plain = query("SELECT T.Id FROM T JOIN H ON T.Id = H.Id WHERE T.Value > 3 WINDOW 1 MINUTE")
    found = query(select)
    assert replace(found, sources=plain.sources) == plain
    assert [source.stream for source in found.sources] == [source.stream for source in plain.sources]


def names(query: ReadQuery, outputs: str, join: str = "T JOIN H ON T.Id = H.Id") -> list[str]:
    return [output.name for output in query(f"SELECT {outputs} FROM {join} {W}").outputs]


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("T.Id, H.Note", ["Id", "Note"]),
        ("T.Value, H.Value", ["T_Value", "H_Value"]),
        ("t.value, h.VALUE", ["T_Value", "H_Value"]),
        ("T.Value AS temperature, H.Value humidity", ["temperature", "humidity"]),
        ("T.Value AS temperature, H.Value", ["temperature", "Value"]),
        ("T.Value, H.Value AS value", ["T_Value", "value"]),
        ("T.Value + 1, T.Id, 'a'", ["_c0", "Id", "_c2"]),
        ("T.Place.city, T.Place.spot.x AS x", ["city", "x"]),
        ('T.Value AS "my value", H.Value AS `date`', ["my value", "date"]),
        ("H.*", ["Id", "Zone", "Value", "Note", "Ts"]),
        ("H.*, T.Ok", ["Id", "Zone", "Value", "Note", "Ts", "Ok"]),
        ("H.*, T.Value", ["Id", "Zone", "H_Value", "Note", "Ts", "T_Value"]),
    ],
)
def test_names_of_result_columns(query: ReadQuery, outputs: str, expected: list[str]) -> None:
    assert names(query, outputs) == expected


def test_star_names_after_the_source_what_both_have(query: ReadQuery) -> None:
    assert names(query, "*", "H JOIN P ON H.Id = P.Id") == [
        *("H_Id", "H_Zone", "Value", "Note", "H_Ts"),
        *("P_Id", "P_Zone", "Level", "P_Ts"),
    ]


def test_star_gives_the_columns_of_using_once_and_first(query: ReadQuery) -> None:
    assert names(query, "*", "H JOIN P USING (Zone, Id)") == ["Zone", "Id", "Value", "Note", "H_Ts", "Level", "P_Ts"]


def test_a_column_of_using_needs_no_source_unless_another_stream_has_it_too(query: ReadQuery) -> None:
    assert names(query, "Zone", "H JOIN P USING (Zone)") == ["Zone"]
    with pytest.raises(ScriptErrors, match="ambiguous"):
        query(f"SELECT Zone FROM T JOIN H USING (Zone) JOIN P ON P.Id = T.Id {W}")


def test_star_over_three_streams_gives_every_column_of_each(query: ReadQuery) -> None:
    assert names(query, "*", "P JOIN H ON P.Id = H.Id JOIN P x ON x.Id = H.Id") == [
        *("P_Id", "P_Zone", "P_Level", "P_Ts"),
        *("H_Id", "H_Zone", "Value", "Note", "H_Ts"),
        *("x_Id", "x_Zone", "x_Level", "x_Ts"),
    ]
    assert names(query, "x.*, Note", "P JOIN H ON P.Id = H.Id JOIN P x ON x.Id = H.Id") == [
        *("Id", "Zone", "Level", "Ts"),
        "Note",
    ]


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("H JOIN P USING (Id) JOIN P x USING (Id)", ["Id", "H_Zone", "Value", "Note", "H_Ts", "P_Zone"]),
        ("H JOIN P USING (Id, Zone) JOIN P x USING (zone, id)", ["Zone", "Id", "Value", "Note", "H_Ts", "P_Level"]),
        ("H JOIN P USING (Id) JOIN P x USING (Level)", ["Level", "H_Id", "H_Zone", "Value", "Note", "H_Ts"]),
        ("H JOIN P USING (Id, Zone) JOIN P x USING (Zone)", ["Zone", "H_Id", "Value", "Note", "H_Ts", "P_Level"]),
    ],
)
def test_star_gives_the_columns_of_the_last_using_first_as_spark_does(
    query: ReadQuery, join: str, expected: list[str]
) -> None:
    assert names(query, "*", join)[: len(expected)] == expected


def test_a_column_that_all_three_share_by_using_is_one_column(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT Id, P.Id AS p FROM T JOIN H USING (Id) JOIN P USING (Id) WHERE Id > 3 {W}")
    assert [shown(found, (key.left, key.right)) for key in found.keys] == [["T.Id", "H.Id"], ["T.Id", "P.Id"]]
    assert shown(found, [output.expr for output in found.outputs]) == ["T.Id", "P.Id"]
    assert shown(found, found.selections[0]) == ["T.Id > 3"]


def test_a_column_of_using_may_be_missing_in_the_first_stream(query: ReadQuery, shown: Shown) -> None:
    found = query(f"SELECT Note FROM T JOIN H USING (Id) JOIN H x USING (Note) {W}")
    assert [shown(found, (key.left, key.right)) for key in found.keys] == [["T.Id", "H.Id"], ["H.Note", "x.Note"]]
    assert shown(found, [output.expr for output in found.outputs]) == ["H.Note"]


def test_result_columns_have_types(query: ReadQuery) -> None:
    found = query(f"SELECT T.Id * 2.5 AS a, H.Id AS b, T.Zone || '!' AS c FROM T, H WHERE T.Id = H.Id {W}")
    assert [output.expr.type for output in found.outputs] == [DOUBLE, BIGINT, STRING]


def test_options_go_to_the_writer_as_they_are(script: ReadScript, query: ReadQuery) -> None:
    assert query(f"SELECT T.Id FROM T, H WHERE T.Id = H.Id {W}").options == ()
    found = script(
        "CREATE STREAM S (Id INT, Ts TIMESTAMP) WITH (time = 'Ts');"
        "CREATE QUERY q WITH (format = 'mine', path = 'out/q', header = TRUE, max.rows = 10) AS"
        f" SELECT a.Id FROM S a, S b WHERE a.Id = b.Id {W}"
    )
    assert found.queries[0].options == (
        ("format", "mine"),
        ("path", "out/q"),
        ("header", "true"),
        ("max.rows", "10"),
    )


def test_a_query_knows_where_it_stands(script: ReadScript) -> None:
    found = script(
        "CREATE STREAM S (Id INT, Ts TIMESTAMP) WITH (time = 'Ts');\n\n"
        f"  CREATE QUERY later AS SELECT a.Id FROM S a, S b WHERE a.Id = b.Id {W};"
    )
    assert (found.queries[0].where.line, found.queries[0].where.column) == (3, 16)


def test_thousands_of_columns_take_twice_the_work_when_they_are_twice_as_many(script: ReadScript) -> None:
    def calls(count: int) -> int:
        columns = ", ".join(f"c{n} INT" for n in range(count))
        text = (
            f"CREATE STREAM S (Id INT, {columns}, Ts TIMESTAMP) WITH (time = 'Ts');"
            f"CREATE QUERY q AS SELECT * FROM S a, S b WHERE a.Id = b.Id {W};"
        )
        profile = Profile()
        profile.runcall(script, text)
        return sum(entry.callcount for entry in profile.getstats())

    calls(10)
    assert calls(2000) < 2.2 * calls(1000)
