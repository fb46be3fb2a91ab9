"""`millstream bench measuring`: what only measures is timed, once, and is what it was afterwards."""

from __future__ import annotations

from pathlib import Path

from millstream.engine.gauges import StepTimes
from millstream.lab.bench import measuring


class Clock:
    def outer(self) -> int:
        return self.inner() + 1

    def inner(self) -> int:
        return sum(range(1000))


def test_a_function_inside_another_counts_once() -> None:
    before = Clock.outer, Clock.inner
    with measuring.watched(((Clock, "inner"),)) as alone:
        Clock().outer()
    assert alone.nanoseconds > 0
    with measuring.watched(((Clock, "outer"), (Clock, "inner"))) as both:
        calls: list[int] = []
        Clock().outer()
        calls.append(both.nanoseconds)
        Clock().inner()
        assert both.nanoseconds > calls[0] > 0
    assert (Clock.outer, Clock.inner) == before


def test_the_report_has_both_sides(tmp_path: Path) -> None:
    plain = StepTimes.add
    lines = list(measuring.report(lambda _: None, batches=8, place=tmp_path, sizes=(2_000,)))
    assert StepTimes.add is plain
    assert lines[0].startswith("2,000 rows a batch")
    told = [line.split() for line in lines]
    engine, driver = (next(words for words in told if words[0] == who) for who in ("engine,", "driver"))
    assert 0 < float(engine[6]) < float(engine[8])
    assert 0 < float(driver[1]) < float(driver[3].rstrip(","))
    assert not list(tmp_path.iterdir())
