"""Rows and keys that are left out: about the share that is asked for, the same ones again, counted with their times;
and what is left of the results is right by DuckDB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from millstream.compile import compile_script
from millstream.model.settings import Settings
from millstream.pipeline import manifest as manifests
from millstream.pipeline.layout import Layout
from millstream.pipeline.placement import _observed
from millstream.pipeline.routing import Router, Routing
from millstream.pipeline.session import make_session
from millstream.pipeline.shedding import Filter, Shed, Shedder
from millstream.pipeline.slot import SlotReport
from millstream.plan.completeness import BY_KEYS
from millstream.plan.meter import BatchFacts, Demand, Shares
from millstream.plan.overload import Overload
from two_streams import PAIR, START, STREAMS

SCRIPT = f"{STREAMS} CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"
ROUTING = Routing.of(compile_script(SCRIPT))
COUNT = 4_000
"""Rows of both streams together: even ones are of A, odd ones of B; the key is the number of the pair."""
BAD = 40
"""Every so many rows one has not parsed."""


def rows() -> DataFrame:
    micros = 1_000_000
    frame = make_session("test").range(0, COUNT, 1, 3)
    return frame.selectExpr(
        "CAST(id % 2 AS INT) AS stream",
        f"CASE WHEN id % {BAD} = 7 THEN 'odd' END AS bad",
        *(
            {
                "INT": f"CAST(id div 2 AS INT) AS {name}",
                "DOUBLE": f"CAST(id AS DOUBLE) AS {name}",
                "TIMESTAMP": f"timestamp_micros(id * {micros}) AS {name}",
            }[kind]
            for name, kind in ROUTING.layout.columns
        ),
    )


def filtered(routing: Routing, table: list[int], shed: Filter) -> DataFrame:
    some = rows()
    return Router(routing, table, {}).routed(some, shed)


class Kept:
    """What a filter has left of the rows, by the number that each has as its value, and what it told."""

    def __init__(self, shares: Shares, seed: int = 1, horizons: Mapping[str, int] | None = None) -> None:
        layout = ROUTING.layout
        frame = filtered(ROUTING, [0, 1], Filter(shares, seed, horizons or {}))
        place = layout.place(0, "v")
        counted = frame.select(place)
        self.ids = {int(row[place]) for row in counted.collect()}
        self.shed = Shed.of(_observed(counted), layout)

    def of(self, stream: int) -> set[int]:
        return {one for one in self.ids if one % 2 == stream and one % BAD != 7}

    def keys(self, stream: int) -> set[int]:
        return {one // 2 for one in self.of(stream)}


READ = [len([one for one in range(COUNT) if one % 2 == stream and one % BAD != 7]) for stream in (0, 1)]
UNREAD = {one for one in range(COUNT) if one % BAD == 7}


def test_rows_are_kept_by_the_share_of_their_stream() -> None:
    kept = Kept(Shares(rows={"A": 0.3, "B": 0.8}))
    assert len(kept.of(0)) / READ[0] == pytest.approx(0.3, abs=0.05)
    assert len(kept.of(1)) / READ[1] == pytest.approx(0.8, abs=0.05)
    assert kept.ids >= UNREAD, "rows that do not parse stay, to be told of"
    assert kept.shed.rows == {"A": READ[0] - len(kept.of(0)), "B": READ[1] - len(kept.of(1))}


@pytest.mark.parametrize("shares", [Shares(rows={"A": 0.5, "B": 0.5}), Shares(keys=0.5)], ids=["rows", "keys"])
def test_the_same_rows_are_kept_when_a_batch_is_tried_again(shares: Shares) -> None:
    assert Kept(shares, seed=5).ids == Kept(shares, seed=5).ids


def test_other_rows_are_kept_of_another_batch_and_the_same_keys() -> None:
    by_rows, by_keys = Shares(rows={"A": 0.5, "B": 0.5}), Shares(keys=0.5)
    assert Kept(by_rows, seed=5).ids != Kept(by_rows, seed=6).ids
    assert Kept(by_keys, seed=5).ids == Kept(by_keys, seed=6).ids


def test_keys_are_the_same_on_all_streams_and_nested() -> None:
    wider: set[int] | None = None
    for share in (0.9, 0.5, 0.2, 0.02):
        kept = Kept(Shares(keys=share))
        parsed = set(range(COUNT // 2)) - {one // 2 for one in UNREAD}
        assert kept.keys(0) & parsed == kept.keys(1)
        assert len(kept.keys(0)) / (COUNT // 2) == pytest.approx(share, abs=0.04)
        assert kept.ids >= UNREAD
        assert kept.shed.rows == {"A": READ[0] - len(kept.of(0)), "B": READ[1] - len(kept.of(1))}
        assert wider is None or kept.keys(0) < wider
        wider = kept.keys(0)


def test_keys_that_are_kept_go_to_all_slots_alike() -> None:
    """The bits that choose keys are not those that choose slots."""
    table = list(range(8))
    frame = filtered(ROUTING, table, Filter(Shares(keys=0.2), 1, {}))
    sent = Counter(row.slot for row in frame.select("slot").collect())
    assert set(sent) == set(table)
    assert max(sent.values()) < 2 * min(sent.values())


@pytest.mark.parametrize("shares", [Shares(rows={"A": 0.5, "B": 0.0}), Shares(keys=0.1)], ids=["rows", "keys"])
def test_the_greatest_times_of_what_is_shed_are_told(shares: Shares) -> None:
    """So that watermarks go on as if nothing were shed; times beyond the horizon do not count."""
    kept = Kept(shares)
    gone = {name: [one for one in range(stream, COUNT, 2) if one not in kept.ids] for stream, name in enumerate("AB")}
    assert kept.shed.greatest == {name: max(some) * 1_000_000 for name, some in gone.items()}
    near = Kept(shares, horizons={"A": 1_000 * 1_000_000})
    below = [one for one in gone["A"] if one <= 1_000]
    assert near.shed.greatest == {"A": max(below) * 1_000_000, "B": max(gone["B"]) * 1_000_000}
    assert near.shed.rows == kept.shed.rows


def test_a_filter_that_keeps_all_changes_nothing() -> None:
    kept = Kept(Shares())
    assert kept.ids == set(range(COUNT))
    assert kept.shed == Shed()


def test_rows_of_a_join_without_an_equality_are_not_shed_by_keys() -> None:
    routing = Routing.of(
        compile_script(f"{STREAMS} CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.v < B.v WINDOW 1 s;")
    )
    assert filtered(routing, [0], Filter(Shares(keys=0.01), 1, {})).count() == COUNT


def test_what_is_observed_is_told_by_stream() -> None:
    layout = Layout.of(compile_script(SCRIPT).script.streams)
    found = Shed.of({"n0": 3, "t0": None, "n1": 0, "t1": None}, layout)
    assert found == Shed({"A": 3}, {}), "rows without a time are counted too"


def some_rows(seed: int, first: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    micros = np.sort(rng.integers(first * 1_000_000, (first + 10) * 1_000_000, 600))
    times = [START + timedelta(microseconds=int(one)) for one in micros]
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    return pa.table({"k": rng.integers(0, 100, 600).astype("int32"), "v": rng.random(600), "Ts": stamps})


def pairs(tables: Mapping[str, pa.Table]) -> Counter[tuple[int, float, float]]:
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        found = db.sql(
            "SELECT A.k, A.v, B.v FROM A JOIN B ON A.k = B.k"
            " AND A.Ts - B.Ts BETWEEN -INTERVAL 9 SECOND AND INTERVAL 9 SECOND"
        )
        return Counter(found.fetchall())


def results(mill: Any) -> Counter[tuple[int, float, float]]:
    return Counter((row["k"], row["av"], row["bv"]) for row in mill.results("q"))


def keeps(monkeypatch: pytest.MonkeyPatch, shares: Shares) -> None:
    """Decides for these shares after the first batch, however long it took: how much to shed is not tested here."""

    def saw(overload: Overload, _: BatchFacts, __: Sequence[Demand]) -> str:
        overload.shares, overload.is_on = shares, True
        return ""

    monkeypatch.setattr(Overload, "saw", saw)


def fed(mill: Any, first: int, count: int) -> dict[str, pa.Table]:
    """Puts batches in; all rows of each stream."""
    batches = [
        {name: some_rows(2 * number + (name == "B"), 10 * number) for name in "AB"}
        for number in range(first, first + count)
    ]
    for batch in batches:
        mill.put(batch)
    mill.pipeline.drain()
    return {name: pa.concat_tables([batch[name] for batch in batches]) for name in "AB"}


def test_with_keys_shed_each_key_has_all_its_results_or_none(
    mill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps(monkeypatch, Shares(keys=0.5))
    one = mill(f"{SCRIPT} SET slots = 2; SET overload = 'shed_keys';")
    tables = fed(one, 0, 6)
    told = [one.done.get_nowait() for _ in range(one.done.qsize())]
    begun = next(number for number, each in enumerate(told) if each.shed)
    there, whole = results(one), pairs(tables)
    assert not there - whole
    since = (START + timedelta(seconds=10 * begun)).replace(tzinfo=None)
    later = pairs({name: _since(table, since) for name, table in tables.items()})
    kept = {row[0] for row in later} & {row[0] for row in there if row in later}
    assert 30 < len(kept) < 70, "of a hundred"
    for key in {row[0] for row in later}:
        mine = Counter({row: count for row, count in later.items() if row[0] == key})
        assert (mine & there) == (mine if key in kept else Counter())
    assert told[-1].completeness["q"] == pytest.approx(there.total() / whole.total(), abs=0.1)
    assert sum(sum(each.rows_in.values()) for each in told) == 6 * 1_200, "rows shed are rows read"
    greatest = manifests.latest(one.pipeline.directory.files.below("manifest"))
    assert greatest is not None
    for name, table in tables.items():
        last = max(table["Ts"].to_pylist())
        assert greatest.greatest[name] == round(last.timestamp() * 1_000_000), "as if nothing were shed"


def _since(table: pa.Table, since: Any) -> pa.Table:
    return table.filter(pa.compute.greater_equal(table["Ts"].cast(pa.timestamp("us")), pa.scalar(since)))


def test_with_rows_shed_what_is_left_is_right(mill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(monkeypatch, Shares(rows={"A": 0.4, "B": 0.9}))
    one = mill(f"{SCRIPT} SET slots = 2; SET overload = 'shed_rows';")
    tables = fed(one, 0, 6)
    told = [one.done.get_nowait() for _ in range(one.done.qsize())]
    there, whole = results(one), pairs(tables)
    assert there.total() < 0.9 * whole.total()
    assert not there - whole, "no row that should not be there, and none twice"
    assert told[-1].completeness["q"] == pytest.approx(there.total() / whole.total(), abs=0.1)


def test_counts_and_completeness_go_on_after_a_restart(
    mill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do when nothing is shed any more, too: what is missing stays missing."""
    keeps(monkeypatch, Shares(keys=0.3))
    script, shed, tables, shares = f"{SCRIPT} SET slots = 2;", 0, [], []
    for first, overload in ((0, "shed_keys"), (4, "shed_keys"), (8, "later")):
        one = mill(script, settings={"overload": overload})
        tables.append(fed(one, first, 4))
        told = [one.done.get_nowait() for _ in range(one.done.qsize())]
        assert any(each.shed for each in told) is (overload != "later")
        shed += sum(sum(each.shed.values()) for each in told)
        saved = manifests.latest(one.pipeline.directory.files.below("manifest"))
        assert saved is not None
        assert sum(saved.shed["rows"].values()) == shed
        assert saved.shed["completeness_by"] == told[-1].completeness_by == BY_KEYS
        shares += [each.completeness.get("q", 1.0) for each in told if each.rows_in]
    whole = pairs({name: pa.concat_tables([some[name] for some in tables]) for name in "AB"})
    assert shares[4] < 1, "the first batch of the second run"
    assert shares[-1] > shares[7], "of all results there are more when none are missing any more"
    assert shares[-1] == pytest.approx(results(one).total() / whole.total(), abs=0.1)


def report(rows_in: Mapping[str, int]) -> SlotReport:
    told: dict[str, Any] = {"slot": 0, "task": 0, "token": "t"}
    return SlotReport(**told, rows_in=rows_in, least=dict.fromkeys(rows_in, 0))


def test_what_a_shedder_saves_is_what_it_goes_on_from() -> None:
    plan, micros = compile_script(SCRIPT), 1_000_000
    settings = replace(Settings(), overload="shed_keys")
    some = report({"A": 30, "B": 40})
    one = Shedder(settings, {})
    assert one.filter(1, {}) is None, "a run begins without shedding"
    assert one.completeness() == {}
    one.count(plan, [some], Shed({"A": 70}), {}, {"A": 10 * micros, "B": 10 * micros})
    saved = one.to_json()
    again = Shedder(settings, saved)
    assert again.to_json() == saved
    assert again.shares.is_all
    again.count(plan, [some], Shed({"A": 5, "B": 1}), {}, {"A": 20 * micros, "B": 20 * micros})
    assert again.to_json()["rows"] == {"A": 75, "B": 1}
    assert Shedder(replace(settings, overload="later"), saved).how == BY_KEYS


def test_where_nothing_is_asked_for_nothing_is_saved() -> None:
    plan = compile_script(SCRIPT)
    one = Shedder(Settings(), {})
    some = report({"A": 30})
    one.count(plan, [some], Shed(), {}, {"A": 10})
    assert not one.is_on
    assert one.to_json() == {}
