"""Where results go: linked and shared files, Spark's writers, callbacks, the late output."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.errors import ScriptError, ScriptErrors
from millstream.pipeline import running
from millstream.pipeline.preflight import wrong_ends
from millstream.testing import run

START = datetime(2024, 1, 1, tzinfo=UTC)
STREAMS = """
CREATE STREAM A (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM B (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
"""
PAIR = "SELECT A.k, A.v AS av, B.v AS bv FROM A, B WHERE A.k = B.k"
BATCHES = [
    {
        name: [{"k": n % 3, "v": n + shift, "Ts": START + timedelta(seconds=10 * batch + n)} for n in range(12)]
        for name, shift in (("A", 0.0), ("B", 0.5))
    }
    for batch in range(2)
]
ROWS = {name: [batch[name] for batch in BATCHES] for name in "AB"}


def filled(mill: Any) -> Any:
    for batch in BATCHES:
        mill.put(batch)
    return mill


def same(found: list[dict[str, Any]], expected: pa.Table) -> None:
    assert sorted(map(repr, found)) == sorted(map(repr, expected.to_pylist()))


def expected(window: int) -> pa.Table:
    return run(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW {window} SECONDS;", ROWS)["q"]


def test_rows_two_queries_get_are_one_file(mill: Callable[..., Any], tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    script = f"{STREAMS} CREATE QUERY wide AS {PAIR} WINDOW 9 SECONDS;"
    script += f"CREATE QUERY narrow WITH (path = '{other}') AS {PAIR} WINDOW 2 SECONDS;"
    found = filled(mill(script))
    found.pipeline.drain()
    same(found.results("wide"), expected(9))
    same(found.results("narrow"), expected(2))
    wide, narrow = (
        {path.stat().st_ino for path in folder.glob("*.parquet")}
        for folder in (tmp_path / "state" / "results" / "wide", other)
    )
    assert narrow < wide, "every file of the narrow query is one of the wide one's"
    # Any reader of Parquet sees just the SELECT list.
    same(pyarrow.dataset.dataset(other).to_table().to_pylist(), expected(2))


def test_shared_results_are_written_once_and_named_in_manifests(mill: Callable[..., Any], tmp_path: Path) -> None:
    script = f"{STREAMS} SET results = 'shared'; CREATE QUERY wide AS {PAIR} WINDOW 9 SECONDS;"
    script += f"CREATE QUERY narrow AS {PAIR} WINDOW 2 SECONDS; "
    script += f"CREATE QUERY own WITH (results = 'own') AS {PAIR} WINDOW 2 SECONDS;"
    found = filled(mill(script))
    found.pipeline.drain()
    for name, window in (("wide", 9), ("narrow", 2), ("own", 2)):
        same(found.results(name), expected(window))
    results = tmp_path / "state" / "results"
    by_hand = []
    for folder in json.loads((results / "narrow" / "manifest.json").read_text())["folders"]:
        by_hand += pyarrow.dataset.dataset(results / "narrow" / folder).to_table().to_pylist()
    same(by_hand, expected(2))
    rows = sum(pq.read_metadata(path).num_rows for path in results.glob("shared/*/*.parquet"))
    assert rows == len(expected(9)), "every pair is written once"
    assert not list(results.glob("narrow/*.parquet"))


def test_callbacks_get_committed_batches(mill: Callable[..., Any]) -> None:
    got: dict[int, pa.Table] = {}
    found = filled(mill(f"{STREAMS} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"))
    found.pipeline.query("q", f"{PAIR} WINDOW 9 SECONDS", sink=got.__setitem__)
    found.pipeline.drain()
    assert len(got) == 2
    same(pa.concat_tables(got.values()).to_pylist(), expected(9))
    same(found.results("other"), expected(2))
    assert any("callback may see its last batch twice" in said for said in found.said)


def test_a_callback_that_raises_stops_its_query(mill: Callable[..., Any]) -> None:
    def refuse(batch: int, _: pa.Table) -> None:
        raise RuntimeError(f"not batch {batch}")

    found = filled(mill(f"{STREAMS} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"))
    found.pipeline.query("q", f"{PAIR} WINDOW 9 SECONDS", sink=refuse)
    found.pipeline.drain()
    assert "query q is stopped: callback: RuntimeError: not batch 1" in found.said
    assert found.pipeline.queries() == ["other"]
    same(found.results("other"), expected(2))


def test_a_callback_that_raises_makes_no_other_see_a_batch_twice(mill: Callable[..., Any]) -> None:
    calls: list[tuple[str, int]] = []

    def second_raises(name: str, batch: int) -> None:
        calls.append((name, batch))
        if len(calls) == 2:
            raise RuntimeError("no")

    found = filled(mill(f"{STREAMS} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"))
    names = ["one", "two", "three"]
    for name in names:
        found.pipeline.query(
            name, f"{PAIR} WINDOW 5 SECONDS", sink=lambda batch, _, name=name: second_raises(name, batch)
        )
    found.pipeline.drain()
    (bad, _) = calls[1]
    assert found.pipeline.queries() == ["other", *(name for name in names if name != bad)]
    seen = sorted((name, batch) for name in names for batch in (1, 2) if name != bad or batch == 1)
    assert sorted(calls) == seen


def test_sinks_of_spark(mill: Callable[..., Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    csv = f"Format = 'csv', Path = '{tmp_path}/csv', header = 'true', compression = 'gzip'"
    script = f"{STREAMS} CREATE QUERY to_csv WITH ({csv}) AS {PAIR} WINDOW 9 SECONDS;"
    script += f"CREATE QUERY to_json WITH (format = 'json', path = '{tmp_path}/both') AS {PAIR} WINDOW 2 SECONDS;"
    script += f"CREATE QUERY to_json_too WITH (format = 'json', path = '{tmp_path}/both') AS {PAIR} WINDOW 2 SECONDS;"
    script += f"CREATE QUERY shown WITH (format = 'console') AS {PAIR} WINDOW 1 SECOND;"
    script += f"CREATE QUERY kept WITH (format = 'memory') AS {PAIR} WINDOW 9 SECONDS;"
    found = filled(mill(script))
    found.pipeline.drain()
    read = [pyarrow.csv.read_csv(path) for path in (tmp_path / "csv").glob("batch=*/*.csv.gz")]
    same(pa.concat_tables(read).to_pylist(), expected(9))
    lines = [line for path in (tmp_path / "both").glob("*/*.json") for line in path.read_text().splitlines()]
    assert len(lines) == 2 * len(expected(2)), "two queries share a folder"
    session = found.pipeline.spark
    assert session.table("kept").count() == len(expected(9))
    assert "query shown" in capfd.readouterr().out
    assert [said for said in found.said if "console" in said]
    with pytest.raises(ScriptError, match="the rows of kept go to a sink"):
        found.results("kept")
    assert not list((tmp_path / "state" / "outbox").glob("*/*.parquet")), "the outbox is empty"


def test_rows_that_cannot_be_used_are_late(tmp_path: Path) -> None:
    from millstream.pipeline import Pipeline

    folder = tmp_path / "in"
    for name in "AB":
        (folder / name).mkdir(parents=True)
    (folder / "A" / "1.json").write_text(
        '{"k": 1, "v": 1.5, "Ts": "2024-01-01T00:00:00Z"}\n{"k": 1, "v": "no num\n{"k": 2, "v": 1.0}\n'
    )
    (folder / "B" / "1.json").write_text('{"k": 1, "v": 2.5, "Ts": "2024-01-01T00:00:00Z"}\n')
    script = STREAMS.replace("time = 'Ts'", "format = 'json', path = '{}', time = 'Ts'")
    for name in "AB":
        script = script.replace("'{}'", f"'{folder / name}'", 1)
    script += f"CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"
    pipeline = Pipeline("test", tmp_path / "state", script=script)
    pipeline.drain()
    assert pipeline.results("q").to_pylist() == [{"k": 1, "av": 1.5, "bv": 2.5}]
    (folder / "B" / "2.json").write_text('{"k": 1, "v": 3.5, "Ts": "2023-12-31T23:00:00Z"}\n')
    again = Pipeline("test", tmp_path / "state", script=script)
    again.drain()
    late = {name: pyarrow.dataset.dataset(tmp_path / "state" / "late" / name).to_table().to_pylist() for name in "AB"}
    assert sorted((row["_reason"], row["_text"] is not None) for row in late["A"]) == [
        ("does not parse", True),
        ("null time", False),
    ]
    assert [(row["_reason"], row["v"], row["_chain"]) for row in late["B"]] == [
        ("older than the watermark", 3.5, "A B k = k")
    ]
    assert len(again.results("q")) == 1


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("format = 'parquet', header = 'true'", "option header"),
        ("compression = 'zip'", "compression = 'zip'"),
        ("results = 'mine'", "results = 'mine'"),
        ("format = 'pigeon'", "Spark knows no format 'pigeon'"),
    ],
)
def test_options_that_mean_nothing_are_refused(mill: Callable[..., Any], options: str, found: str) -> None:
    with pytest.raises((ScriptError, ScriptErrors), match=found):
        mill(f"{STREAMS} CREATE QUERY q WITH ({options}) AS {PAIR} WINDOW 9 SECONDS;").pipeline.drain()


def test_what_a_sink_has_not_taken_comes_from_the_query_that_gave_it(
    mill: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends between a commit and its delivery, and the next one has a script without that query."""
    out = tmp_path / "out"
    kept = f"{STREAMS} CREATE QUERY kept AS {PAIR} WINDOW 2 SECONDS;"
    gone = f"CREATE QUERY gone WITH (format = 'json', path = '{out}') AS {PAIR} WINDOW 9 SECONDS;"
    first = mill(kept + gone)
    first.put(BATCHES[0])

    def dies(_spark: Any, batch: int, *_: Any) -> None:
        if batch:
            raise RuntimeError("here it ends")

    with monkeypatch.context() as broken:
        broken.setattr(running, "deliver", dies)
        with pytest.raises(RuntimeError, match="here it ends"):
            first.pipeline.drain()
    assert not out.exists() or not list(out.glob("batch=*"))
    mill(kept).pipeline.drain()
    lines = [json.loads(line) for path in out.glob("batch=*/*.json") for line in path.read_text().splitlines()]
    wanted = run(f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;", {name: [BATCHES[0][name]] for name in "AB"})
    same(lines, wanted["q"])


@pytest.mark.parametrize(("read", "written"), [("in/A", "in/A"), ("in/A", "in/A/below"), ("i*", "in")])
def test_a_query_does_not_write_where_a_stream_is_read(tmp_path: Path, read: str, written: str) -> None:
    streams = STREAMS.replace("WITH (", f"WITH (path = '{tmp_path}/{read}', ", 1)
    query = f"CREATE QUERY q WITH (path = '{tmp_path}/{{}}') AS {PAIR} WINDOW 2 SECONDS;"
    (wrong,) = wrong_ends(compile_script(streams + query.format(written)).script)
    assert "where stream A reads" in wrong.found
    assert not wrong_ends(compile_script(streams + query.format("out")).script)


def test_queries_share_a_path_only_with_columns_of_one_type(tmp_path: Path) -> None:
    one = f"CREATE QUERY one WITH (path = '{tmp_path}/out') AS {PAIR} WINDOW 2 SECONDS;"
    other = one.replace("QUERY one", "QUERY other").replace("B.v AS bv", "B.Ts AS bv")
    (wrong,) = wrong_ends(compile_script(STREAMS + one + other).script)
    assert "other and one write to" in wrong.found
    more = one.replace("QUERY one", "QUERY more").replace("B.v AS bv", "B.Ts AS cv")
    assert not wrong_ends(compile_script(STREAMS + one + more).script)


def test_a_path_lies_outside_the_directory(mill: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "state" / "results" / "other"
    found = mill(f"{STREAMS} CREATE QUERY q WITH (path = '{path}') AS {PAIR} WINDOW 2 SECONDS;")
    with pytest.raises(ScriptError, match="inside the pipeline's own directory"):
        found.pipeline.drain()
