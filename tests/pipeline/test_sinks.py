"""Where results go: linked and shared files, Spark's writers, callbacks, the late output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest

from begun import FROM_FILES, SELECT, Begin, query
from millstream.compile import compile_script
from millstream.errors import QueryFailed, ScriptError, ScriptErrors
from millstream.pipeline.delivery import Delivery
from millstream.pipeline.preflight import wrong_ends
from millstream.testing import run
from two_streams import BATCHES, PAIR, STREAMS, expected, filled, same


def test_callbacks_get_committed_batches(mill: Callable[..., Any]) -> None:
    got: dict[int, pa.Table] = {}
    found = filled(mill(f"{STREAMS} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"))
    found.pipeline.query("q", f"{PAIR} WINDOW 9 SECONDS", sink=got.__setitem__)
    found.pipeline.drain()
    assert len(got) == 2
    same(pa.concat_tables(got.values()).to_pylist(), expected(9))
    same(found.results("other"), expected(2))
    assert any("callback may see its last batch twice" in said for said in found.said)


STOPPING = f"{STREAMS} SET on_error = 'stop'; CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"
"""With it a callback that raises ends the run after the commit, before its rows are taken: as a crash there would."""


def crash(_: int, __: pa.Table) -> None:
    raise RuntimeError("as if killed")


def test_rows_wait_for_a_callback_that_comes_back(mill: Callable[..., Any]) -> None:
    select = f"{PAIR} WINDOW 9 SECONDS"
    found = filled(mill(STOPPING))
    found.pipeline.query("q", select, sink=crash)
    with pytest.raises(QueryFailed, match="as if killed"):
        found.pipeline.drain()
    again = mill(STOPPING)
    again.pipeline.sql(f"CREATE QUERY q AS {select}")
    with pytest.raises(ScriptError, match="no callback for q"):
        again.pipeline.drain()
    got: dict[int, pa.Table] = {}
    last = mill(STOPPING)
    last.pipeline.query("q", select, sink=got.__setitem__)
    last.pipeline.drain()
    same(pa.concat_tables(got.values()).to_pylist(), expected(9))
    same(last.results("other"), expected(2))


def test_rows_that_no_sink_takes_any_more_are_told(mill: Callable[..., Any]) -> None:
    found = filled(mill(STOPPING))
    found.pipeline.query("q", f"{PAIR} WINDOW 9 SECONDS", sink=crash)
    with pytest.raises(QueryFailed, match="as if killed"):
        found.pipeline.drain()
    last = mill(STOPPING)
    last.pipeline.drain()
    assert "rows of the last batch for the sink of q are left in outbox/q: it has none now" in last.said


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_callback_that_raises_stops_its_query(mill: Callable[..., Any], kind: type[BaseException]) -> None:
    def refuse(batch: int, _: pa.Table) -> None:
        raise kind(f"not batch {batch}")

    found = filled(mill(f"{STREAMS} CREATE QUERY other AS {PAIR} WINDOW 2 SECONDS;"))
    found.pipeline.query("q", f"{PAIR} WINDOW 9 SECONDS", sink=refuse)
    found.pipeline.drain()
    told = [said.splitlines()[0] for said in found.said]
    assert f"query q is stopped: callback: {kind.__name__}: not batch 1" in told
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


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("format = 'parquet', header = 'true'", 'no option "header"'),
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

    def dies(*_: Any) -> None:
        raise RuntimeError("here it ends")

    with monkeypatch.context() as broken:
        broken.setattr(Delivery, "add", dies)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format = 'csv'", "format = 'csv' without a path; a csv sink needs it. Add it to WITH."),
        ("format = 'XML'", "format = 'xml' without a path"),
        ("FORMAT = 'orc', path = ''", "path = ''; a path names a folder"),
        ("format = 'delta'", "without a path or a table"),
        ("format = 'kafka', topic = 't'", "without kafka.bootstrap.servers"),
        ("format = 'kafka', kafka.bootstrap.servers = 'h:9'", "without a topic, or a column of that name"),
        ("format = 'cvs', path = 'out'", "format = 'cvs'; .* Did you mean \"csv\"?"),
        ("format = 'text', path = 'out'", "a line of text is one STRING column"),
        ("format = 'json', path = 'out', results = 'shared'", "results = 'shared' with format = 'json'"),
        ("compression = 'zip'", "compression = 'zip'; it is one of lz4"),
        ("format = 'json', path = 'out', compression = 'zstd'", "compression = 'zstd'; it is one of none, bzip2"),
    ],
)
def test_sinks_are_checked_before_anything_starts(begin: Begin, options: str, message: str) -> None:
    with pytest.raises(ScriptError, match=rf"query 'q', line 4, column 14: .*{message}"):
        begin(FROM_FILES + query("q", options))
    control = begin(FROM_FILES + query("other"))
    control.registry.ask("add", "q", query("q", options).rstrip(";"))
    assert not control.change(2)


@pytest.mark.parametrize(
    ("select", "options"),
    [
        (SELECT.replace("A.k, A.s", "A.s"), "format = 'text', path = 'out'"),
        (SELECT.replace("A.s", "A.s AS topic"), "format = 'kafka', kafka.bootstrap.servers = 'h:9'"),
        (SELECT.replace("A.k,", "A.k AS key,"), "format = 'kafka', kafka.bootstrap.servers = 'h:9', TOPIC = 't'"),
        (SELECT, "format = 'delta', Table = 'results'"),
        (SELECT, "format = 'com.example.Sink', anything = 1"),
        (SELECT, "format = 'noop'"),
    ],
)
def test_sinks_that_lack_nothing(begin: Begin, select: str, options: str) -> None:
    assert "q" in begin(FROM_FILES + query("q", options, select)).sinks.external


def test_no_query_is_called_as_the_folder_of_shared_rows(begin: Begin) -> None:
    with pytest.raises(ScriptError, match='a query named "Shared"; results/shared/ holds'):
        begin(FROM_FILES + query("Shared"))


def test_queries_share_a_path_only_if_they_write_alike(begin: Begin) -> None:
    shared = "format = 'csv', path = 'out', header = 'true'"
    begin(FROM_FILES + query("a", shared) + query("b", shared.replace("out", "./out/").replace("path", "Path")))
    for other in ("format = 'json', path = 'out'", "path = 'out'", "format = 'csv', path = 'out'"):
        with pytest.raises(ScriptError, match=r"query 'b', .* b and a write to '.*/out' in different ways"):
            begin(FROM_FILES + query("a", shared) + query("b", other), "other")


def test_compression_goes_to_the_writer(begin: Begin) -> None:
    control = begin(FROM_FILES + query("q", "format = 'json', path = 'out', compression = 'gzip'"))
    assert ("compression", "gzip") in control.sinks.external["q"].options
