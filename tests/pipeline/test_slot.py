"""A slot at work: rows in, a small report out, and what it keeps open between batches. Mostly without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from millstream.compile import compile_script
from millstream.engine import keys
from millstream.engine.arrow import arrow_type
from millstream.engine.files import DamagedFileError, Files
from millstream.engine.shard_manifest import ShardManifest
from millstream.engine.watermark import NEVER
from millstream.model.functions import Function, function
from millstream.pipeline import Pipeline
from millstream.pipeline import manifest as manifests
from millstream.pipeline import slot as slots
from millstream.pipeline.layout import BAD
from millstream.pipeline.manifest import Manifest, SlotManifest
from millstream.pipeline.packing import packed
from millstream.pipeline.results import Target
from millstream.pipeline.routing import CODE, ROUTE, Routing
from millstream.pipeline.slot import BatchRequest, SlotPlan, SlotReport, run_slot
from two_streams import BATCHES, PAIR, STREAMS, Rows, expected, same

QUERY = f"CREATE QUERY q AS {PAIR} WINDOW 9 SECONDS;"
FAR = 2**61


class Driver:
    """What the driver does of a batch with one slot, without Spark: it sends rows, and keeps the reports it commits."""

    def __init__(self, place: Path, script: str = QUERY, functions: Mapping[str, Function] | None = None) -> None:
        self.place, self.plan = place, compile_script(STREAMS + script, functions=functions)
        self.routing = Routing.of(self.plan)
        names = [query.name for query in self.plan.script.queries]
        self.sent_plan = SlotPlan(
            version=uuid.uuid4().hex,
            plan=self.plan,
            routing=self.routing,
            since=dict.fromkeys(names, 1),
            targets={name: Target(name, str(place / "results" / name)) for name in names},
            late=str(place / "late"),
            functions=functions or {},
        )
        self.run, self.batch = uuid.uuid4().hex, 0
        self.states: dict[int, SlotManifest] = {}
        self.tasks, self.committed = count(1), tuple[range, ...]()
        self.greatest = {stream.name: NEVER for stream in self.plan.script.streams}
        (place / "segments").mkdir()
        (place / "manifest").mkdir()

    def sent(self, batch: Mapping[str, Rows]) -> list[pa.RecordBatch]:
        """Rows as they come out of the shuffle: in shared columns, with a route and a code."""
        layout, found = self.routing.layout, []
        for number, route in enumerate(self.routing.routes):
            stream, places = layout.streams[route.stream], layout.places[route.stream]
            rows = batch[stream.name]
            own = {
                place: [row[column.name] for row in rows] for place, column in zip(places, stream.columns, strict=True)
            }
            kinds = {place: arrow_type(column.type) for place, column in zip(places, stream.columns, strict=True)}
            columns = {place: pa.array(values, kinds[place]) for place, values in own.items()}
            codes = keys.codes([columns[places[0]].cast(pa.int64())], len(rows)).view(np.int64)
            columns |= {
                BAD: pa.nulls(len(rows), pa.string()),
                ROUTE: pa.array([number] * len(rows), pa.int32()),
                CODE: pa.array(codes),
            }
            found.append(pa.RecordBatch.from_pydict(columns))
        return found

    def request(self) -> BatchRequest:
        return BatchRequest(
            run=self.run,
            pipeline="0123abcd",
            location=str(self.place),
            batch=self.batch + 1,
            watermarks={chain.signature: min(self.greatest.values()) for chain in self.plan.chains},
            horizons={stream.name: FAR for stream in self.plan.script.streams},
            committed=self.committed,
            plan_version=self.sent_plan.version,
            plan=packed(self.sent_plan),
            finish=False,
        )

    def step(self, batch: Mapping[str, Rows]) -> SlotReport:
        """One batch, which counts only once it is committed."""
        return run_slot(self.request(), 0, next(self.tasks), self.sent(batch))

    def commit(self, report: SlotReport) -> Rows:
        """The rows it gives to q."""
        assert not report.error
        self.states, self.batch = {0: SlotManifest(report.token, report.state)}, self.batch + 1
        files = Files.at(self.place).below("manifest")
        manifests.commit(files, Manifest(batch=self.batch, pipeline="0123abcd", slots=self.states))
        self.committed = (range(report.task, report.task + 1),)
        self.greatest |= report.greatest
        return self.rows(report, "q")

    def rows(self, report: SlotReport, name: str) -> Rows:
        """What it has written for a query, or as late rows of a stream."""
        mine = [output for output in report.outputs if name in {final.query for final in output.finals}]
        return [row for one in mine for row in pq.read_table(Path(one.folder) / one.staged).to_pylist()]


@pytest.mark.parametrize("worker", ["the same", "another"])
def test_batch_by_batch_it_gives_what_the_engine_gives(tmp_path: Path, worker: str) -> None:
    """Also where every batch runs in a worker that has seen none before, and goes on from files."""
    driver, found = Driver(tmp_path), []
    for batch in BATCHES:
        if worker == "another":
            driver.run, driver.committed = uuid.uuid4().hex, ()
        report = driver.step(batch)
        assert report.rows_in == {"A": 12, "B": 12}
        assert report.greatest == {name: round(batch[name][-1]["Ts"].timestamp() * 1e6) for name in "AB"}
        found += driver.commit(report)
        assert sum(report.served.values()) == len(driver.rows(report, "q"))
    same(found, expected(9, BATCHES))


def test_a_batch_that_was_not_committed_leaves_no_trace(tmp_path: Path) -> None:
    """The worker has gone on from it in memory; the driver has not, and sends other rows under the same number."""
    driver = Driver(tmp_path)
    found = driver.commit(driver.step(BATCHES[0]))
    driver.step(BATCHES[2])
    for batch in BATCHES[1:]:
        found += driver.commit(driver.step(batch))
    same(found, expected(9, BATCHES))


def test_of_two_tasks_for_a_slot_only_the_committed_one_is_gone_on_from(tmp_path: Path) -> None:
    """As where Spark runs a task twice, both end, and the worker that is asked next has run the other one."""
    driver = Driver(tmp_path)
    found = driver.commit(driver.step(BATCHES[0]))
    report = driver.step(BATCHES[1])
    driver.step(BATCHES[2])
    found += driver.commit(report)
    found += driver.commit(driver.step(BATCHES[2]))
    same(found, expected(9, BATCHES))


def test_a_worker_that_has_the_committed_state_reads_no_manifest(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    found = []
    for batch in BATCHES:
        found += driver.commit(driver.step(batch))
        for path in (tmp_path / "manifest").iterdir():
            path.unlink()
    same(found, expected(9, BATCHES))
    driver.run, driver.committed = uuid.uuid4().hex, ()
    with pytest.raises(DamagedFileError, match=r"manifest/000000000003\.json: the file is missing"):
        driver.step(BATCHES[0])


def test_a_manifest_is_read_once_for_all_slots_of_a_worker(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    report = driver.step(BATCHES[0])
    driver.states = {slot: SlotManifest(report.token, report.state) for slot in range(1, 4)}
    manifests.commit(Files.at(tmp_path).below("manifest"), Manifest(batch=1, pipeline="0123abcd", slots=driver.states))
    driver.batch, driver.run = 1, uuid.uuid4().hex
    assert not run_slot(driver.request(), 1, 10, driver.sent(BATCHES[1])).error
    (tmp_path / "manifest" / "000000000001.json").unlink()
    assert not run_slot(driver.request(), 2, 11, driver.sent(BATCHES[1])).error
    with pytest.raises(DamagedFileError, match=r"000000000001\.json: it has no slot 0"):
        run_slot(driver.request(), 0, 12, driver.sent(BATCHES[1]))


def test_a_worker_caches_all_slots_of_a_run_and_forgets_those_of_others_in_time(tmp_path: Path) -> None:
    driver, nothing = Driver(tmp_path), {"A": [], "B": []}
    for slot in range(slots._MOST + 3):
        run_slot(driver.request(), slot, slot, driver.sent(nothing))
    first, driver.run = driver.run, uuid.uuid4().hex
    assert sum(run == first for run, _ in slots._SHARDS) == slots._MOST + 3
    for slot in range(5):
        run_slot(driver.request(), slot, 100 + slot, driver.sent(nothing))
    assert sum(run == driver.run for run, _ in slots._SHARDS) == 5
    assert len(slots._SHARDS) == slots._MOST


def test_a_slot_without_rows_keeps_what_it_has(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.commit(driver.step(BATCHES[0]))
    before = driver.states[0].shard
    report = driver.step({"A": [], "B": []})
    assert driver.commit(report) == []
    assert report.state.segments == before.segments
    assert (report.state.numbered, report.state.chains) == (before.numbered, before.chains)
    assert {pool.watermark for pool in report.state.pools.values()} == {min(driver.greatest.values())}
    assert report.rows_in == {}


def test_a_function_that_raises_is_all_a_slot_tells_of(tmp_path: Path) -> None:
    @function("BOOLEAN", "DOUBLE")
    def picky(value: np.ndarray) -> np.ndarray:
        if np.any(value > 100):
            raise ValueError("too much")
        return value >= 0

    bad = f"CREATE QUERY bad AS {PAIR} AND picky(A.v + B.v) WINDOW 9 SECONDS;"
    driver = Driver(tmp_path, QUERY + bad, {"picky": picky})
    found = driver.commit(driver.step(BATCHES[0]))
    too_much: dict[str, Any] = {**BATCHES[1], "A": [{**row, "v": 101.0} for row in BATCHES[1]["A"]]}
    report = driver.step(too_much)
    assert (report.failed, report.error.splitlines()[0]) == (("bad",), "ValueError: too much")
    assert report.state == ShardManifest()
    assert not report.outputs
    found += driver.commit(driver.step(BATCHES[1]))
    same(found, expected(9))


def test_rows_without_a_time_and_late_ones_are_told_of_apart(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.commit(driver.step(BATCHES[0]))
    rows = [{**BATCHES[1]["A"][0], "Ts": None}, BATCHES[0]["A"][0], BATCHES[1]["A"][5]]
    report = driver.step({"A": rows, "B": []})
    assert report.late == {"A": 2}
    assert report.rows_in == {"A": 3}
    assert sorted((row["_reason"], row["_chain"]) for row in driver.rows(report, "A")) == [
        ("null time", None),
        ("older than the watermark", "A B k = k"),
    ]


def test_rows_that_cannot_be_used_are_late(tmp_path: Path) -> None:
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
