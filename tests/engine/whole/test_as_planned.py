"""What `explain` shows is what the engine does: its slices, the cuts it routes at, and the lanes rows are kept in."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import pytest

from millstream.compile import compile_script
from millstream.engine import fan_out
from millstream.engine.arrow import Ints
from millstream.engine.backlog import Budget
from millstream.engine.engine import Engine
from millstream.lab.workloads.generators import Sensors
from millstream.plan import Plan
from millstream.plan.nodes import LEFT, RIGHT

EXAMPLE = files("millstream").joinpath("examples/datacentre.sql").read_text()
SECONDS = 1_300
ONE_WAY = """
CREATE STREAM Temperature (LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE STREAM Humidity (LocationId INT, Value DOUBLE, Reading BIGINT, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY q AS SELECT T.Value FROM Temperature T, Humidity H WHERE T.LocationId = H.LocationId
AND H.Ts BETWEEN T.Ts - INTERVAL '30' SECOND AND T.Ts - INTERVAL '20' SECOND;
"""


class Observed:
    """An engine on the rows of the example, with every cut it routed pairs at."""

    def __init__(self, plan: Plan, monkeypatch: pytest.MonkeyPatch, budget: Budget | None) -> None:
        self.cuts: set[int] = set()
        routed = fan_out.routed

        def noting(differences: Ints, cuts: Sequence[int]) -> tuple[Ints, list[int]]:
            self.cuts |= set(cuts)
            return routed(differences, cuts)

        monkeypatch.setattr(fan_out, "routed", noting)
        self.rows: dict[str, int] = {}
        engine = Engine(plan, lambda query, rows: self._count(query, rows.num_rows))
        sensors = Sensors(rate=20, locations=20, seconds=SECONDS)
        for left, right in zip(sensors.batches(1, 13), sensors.batches(2, 13), strict=True):
            tables = {"Temperature": left, "Humidity": right}
            columns = {stream.name: [column.name for column in stream.columns] for stream in plan.script.streams}
            engine.feed({name: table.select(columns[name]) for name, table in tables.items()}, budget)
        (self.chain,) = engine.chains()
        pools = {pool.pool.name: pool for pool in engine.pools()}
        self.kept = [{segment.reach for segment in pools[name].segments} for name in self.chain.chain.pools]
        engine.close()

    def _count(self, query: str, rows: int) -> None:
        self.rows[query] = self.rows.get(query, 0) + rows


@pytest.mark.parametrize("slicing", ["cpu", "memory"])
@pytest.mark.parametrize("budget", [None, Budget(units=2)])
def test_slices_cuts_and_lanes_are_those_of_the_plan(
    monkeypatch: pytest.MonkeyPatch, slicing: str, budget: Budget | None
) -> None:
    settings = {"slicing": slicing, "budget": "1 second" if budget else "0 seconds"}
    plan = compile_script(EXAMPLE, settings=settings)
    seen = Observed(plan, monkeypatch, budget)
    (chain,) = plan.chains
    assert set(seen.chain.statistics.slices) == {piece.interval for piece in chain.slices}
    assert seen.cuts == {cut for piece in chain.slices for cut in piece.cuts}
    for side in (LEFT, RIGHT):
        assert seen.kept[side] == {lane.reach for lane in chain.kept[side]}
    assert seen.rows.keys() == {member.name for member in chain.members}


def test_every_slicing_gives_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [
        compile_script(EXAMPLE, settings=settings)
        for settings in ({}, {"slicing": "memory"}, {"budget": "1 second"}, {"costs": "paper"})
    ]
    counts = [len(plan.chains[0].slices) for plan in plans]
    assert len(set(counts)) > 2, "they are cut in different ways"
    first, *others = [Observed(plan, monkeypatch, None).rows for plan in plans]
    assert all(other == first for other in others)


@pytest.mark.parametrize(("delay", "kept"), [(0, False), (60, True)])
def test_a_stream_that_only_meets_earlier_tuples_is_kept_while_they_may_still_come(
    monkeypatch: pytest.MonkeyPatch, delay: int, kept: bool
) -> None:
    """Temperature meets what was 20 to 30 s before it: it waits for nothing but rows that arrive late."""
    plan = compile_script(ONE_WAY.replace("time = 'Ts'", f"time = 'Ts', delay = '{delay} seconds'"))
    (chain,) = plan.chains
    seen = Observed(plan, monkeypatch, None)
    held = dict(zip(chain.names, seen.kept, strict=True))
    assert list(held["Humidity"]) == [pytest.approx(30e6, abs=1)]
    assert list(held["Temperature"]) == ([pytest.approx(-20e6, abs=1)] if kept else [])
