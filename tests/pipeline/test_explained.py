"""The plan of a directory and what was measured of it, from its files alone."""

from __future__ import annotations

from dataclasses import asdict

from begun import Begin, query
from millstream.pipeline import manifest as manifests
from millstream.pipeline.chosen import Change, Chosen
from millstream.pipeline.explained import explain_directory
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.measuring import Ratio, RunStatistics
from millstream.plan import Calibration
from millstream.plan.explain.measured import measured_text

STREAMS = """
CREATE STREAM A (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/A', rate = 1000, keys = 100000);
CREATE STREAM B (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/B', rate = 1000, keys = 100000);
"""
SLOW = RunStatistics(
    batches=7,
    rates={"A": Ratio(1, 100), "B": Ratio(500, 1)},
    arrivals={"A": Ratio(2, 100)},
    steps={"search": Ratio(3_000_000, 30_000), "emit": Ratio(1_000_000, 100_000)},
    spent=Ratio(40, 10),
)


def test_a_pipeline_that_has_measured_nothing_yet(begin: Begin) -> None:
    control = begin(STREAMS + query("q"))
    found = explain_directory(control.directory.location)
    assert found.plan.chains == found.hinted.chains == control.planned().chains
    assert measured_text(found.plan, found.hinted, found.measured).startswith("Measured: nothing yet")


def test_measurements_stand_beside_assumptions(begin: Begin) -> None:
    control = begin(STREAMS + query("q"))
    manifests.commit(control.directory.files.below("manifest"), Manifest(batch=1, statistics=SLOW.to_json()))
    found = explain_directory(control.directory.location)
    assert not found.measured.chooses
    assert found.plan.chains == found.hinted.chains, "measurements alone change no plan"
    assert dict(found.measured.statistics.rates) == {"A": 0.01, "B": 500}
    assert [(name, one.nanoseconds, one.share) for name, one in found.measured.steps.items()] == [
        ("search", 100, 0.75),
        ("emit", 10, 0.25),
    ]
    lines = measured_text(found.plan, found.hinted, found.measured).splitlines()
    assert lines[0].endswith("the plan in use was chosen by hints")
    line = next(line for line in lines if line.split()[:1] == ["A"])
    assert line.split() == ["A", "1,000", "0.01", "0.02"]
    assert lines[-3].endswith("really spent 4")
    assert lines[-1] == "  The plan has not been changed."


def test_the_plan_is_the_one_in_use_with_the_reasons_of_its_changes(begin: Begin) -> None:
    """A slow prober is better served by a scan: so the plan that measurements have chosen is another one."""
    control = begin(STREAMS + query("q"))
    files = control.directory.files
    manifests.commit(files.below("manifest"), Manifest(batch=1, statistics=SLOW.to_json()))
    settings = asdict(control.planned().script.settings)
    chosen = Chosen(settings=settings, calibration=asdict(Calibration()), statistics=SLOW.to_json())
    chosen.with_change(Change(5, "it is cheaper")).with_effect("a row takes half as long").write(files)
    found = explain_directory(control.directory.location)
    assert found.measured.chooses
    assert found.plan.chains[0].access != found.hinted.chains[0].access
    text = measured_text(found.plan, found.hinted, found.measured)
    assert text.endswith("after batch 5: it is cheaper\n      a row takes half as long")
