"""How batches look: the view on a terminal, the line per batch, the summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console, RenderableType

from millstream.cli.history import History
from millstream.cli.live import line, view
from millstream.cli.screen import Screen
from millstream.cli.summary import summary_json, summary_lines
from millstream.model.interval import Interval
from millstream.pipeline.progress import BatchProgress, Response, SliceState

Golden = Callable[[str, str], None]
SECOND = 1_000_000
NOON = 1_700_000_000.0
WINDOWS = {"near": "(-1 s, +1 s)", "far": "(-1 min, +1 min)"}
PLACES = {"near": "state/s/results/near", "far": "kafka sink"}


def batch(
    number: int,
    *,
    rows: int = 1_000,
    late: int = 0,
    deferred: int = 0,
    queries: tuple[str, ...] = ("near", "far"),
    limit: int = 0,
    on_disk: int = 0,
    owing: int = 0,
    adaptation: str = "",
) -> BatchProgress:
    """A batch that took half a second and was committed `number` seconds after noon."""
    cuts = [-60 * SECOND, -SECOND, SECOND, 60 * SECOND]
    return BatchProgress(
        batch=number,
        rows_in={"T": rows, "H": rows // 2},
        late={"H": late} if late else {},
        queries={name: Response(rows * place, 0.25 * number, 0.5 * number) for place, name in enumerate(queries, 1)},
        state_rows=rows * number,
        state_bytes=rows * number * 30,
        slices={"chain 1": tuple(SliceState(Interval(lo, hi), rows + hi // SECOND) for lo, hi in pairwise(cuts))},
        lag_seconds={"T": 12.5, "H": 400.0},
        memory_bytes=rows * number * 30 - on_disk,
        memory_limit=limit,
        disk_bytes=on_disk,
        deferred=deferred,
        owing=owing,
        adaptation=adaptation,
        held_back=deferred > 5,
        seconds=0.5,
        split={"read": 0.04, "restore": 0.01, "join": 0.2, "write": 0.05, "commit": 0.05, "spark": 0.15},
        committed=NOON + number,
    )


def shown(part: RenderableType) -> str:
    out = StringIO()
    Console(file=out, width=100).print(part)
    return "\n".join(text.rstrip() for text in out.getvalue().splitlines())


def test_the_view(golden: Golden) -> None:
    history = History.of([batch(1), batch(2, late=3), batch(3, deferred=7)], WINDOWS)
    history.messages += ["query odd is stopped: ValueError: no"]
    golden("view.txt", shown(view(history, "s")))


def shedding(number: int, rows: int, **complete: float) -> BatchProgress:
    shed = {"T": rows} if rows else {}
    return replace(batch(number), shed=shed, completeness=complete, completeness_by="from the rows kept")


def test_the_view_tells_what_was_shed_and_how_complete_queries_are(golden: Golden) -> None:
    """What was shed stays in it when nothing is shed any more."""
    batches = [batch(1), shedding(2, 600, near=0.8, far=0.75), shedding(3, 0, near=0.90004, far=0.99999)]
    golden("view_shed.txt", shown(view(History.of(batches, {**WINDOWS, "new": "(-2 s, +2 s)"}), "s")))


def test_a_line_tells_what_was_shed_and_how_complete_queries_are() -> None:
    assert "shed" not in line(batch(1))
    assert "complete" not in line(batch(1))
    assert "600 shed  results about 75.0 % to 80.0 % complete" in line(shedding(2, 600, near=0.8, far=0.75))
    later = line(shedding(3, 0, near=0.99999, far=0.99999))
    assert "shed" not in later
    assert "results about 99.9 % complete" in later


def test_the_summary_tells_what_was_shed_and_how_complete_queries_are() -> None:
    history = History.of([shedding(1, 600, near=0.5, far=0.4), shedding(2, 50, near=0.8, far=0.00001)], WINDOWS)
    lines = list(summary_lines(history, "state/s", PLACES, {}))
    assert "shed, because rows came too fast: T 650" in lines
    assert "results are about 0.1 % to 80.0 % complete, estimated from the rows kept" in lines
    (near,) = (one for one in lines if one.startswith("  near"))
    assert " 80.0 % " in near
    found = summary_json(history, "state/s", PLACES, error=None, stopped={})
    assert found["shed"] == {"T": 650}
    assert found["completeness_by"] == "from the rows kept"
    assert [found["queries"][name]["completeness"] for name in ("near", "far")] == [0.8, 0.00001]


def test_warnings_stand_on_top_of_the_view_and_in_the_summary() -> None:
    told = "50% of the rows of T are late or unreadable"
    history = History.of([batch(1), replace(batch(2), warnings=(told,))], WINDOWS)
    assert shown(view(history, "s")).splitlines()[1].strip() == f"warning: {told}"
    assert f"warning: {told}" in summary_lines(history, "state/s", PLACES, {})
    assert summary_json(history, "state/s", PLACES, error=None, stopped={})["warnings"] == [told]
    history.add(batch(3))
    assert told not in shown(view(history, "s")), "it goes when it does not hold any more"


MOVED = "memory is not balanced: b has 20 kB, a 70 kB; from a to b go 2 groups with 25 kB"


def test_the_view_when_memory_is_short(golden: Golden) -> None:
    some = [batch(1, limit=80_000), batch(2, limit=80_000, adaptation=MOVED)]
    history = History.of([*some, batch(3, limit=80_000, on_disk=60_000, owing=7)], WINDOWS)
    golden("view_memory.txt", shown(view(history, "s")))


def test_what_is_left_to_clean_up_is_shown_while_no_rows_come() -> None:
    """Of as many groups as owed results when rows last came."""
    history = History()
    for number, (rows, owing) in enumerate([(1_000, 90), (1_000, 40), (0, 40), (0, 10), (0, 1), (0, 0)], start=1):
        history.add(batch(number, rows=rows, owing=owing))
        left = [one for one in shown(view(history, "s")).splitlines() if one.startswith("clean-up")]
        assert [one.split(maxsplit=2)[2] for one in left] == (
            [f"{owing} of 40 groups left"] if owing and not rows else []
        )
    history.add(batch(7, owing=3))
    history.add(batch(8, rows=0, owing=3))
    assert "3 of 3 groups left" in shown(view(history, "s"))


def test_the_last_decision_has_a_line_of_its_own_and_pushes_no_warning_out() -> None:
    history = History.of([], WINDOWS)
    history.messages.append("query odd is stopped: ValueError: no")
    for number in range(1, 9):
        history.messages.append(f"batch {number}: memory is full of {number}")
        history.add(batch(number, adaptation=f"memory is full of {number}"))
    text = shown(view(history, "s"))
    assert "query odd is stopped" in text
    assert text.count("memory is full of") == 1
    assert "batch 8: memory is full of 8" in text


def test_a_batch_that_only_cleans_up_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen("s")
    for owing in (2, 1, 0):
        screen.batch(batch(1, rows=0, queries=(), owing=owing), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("2 groups owe results")
    assert second.endswith("1 group owes results")


def test_the_time_that_sinks_take_is_in_the_line_of_a_batch() -> None:
    one = batch(1)
    assert "deliver" not in line(one)
    slow = replace(one, split={**one.split, "deliver": 1.25})
    assert "deliver 1.25" in line(slow)
    history = History()
    history.add(slow)
    assert "deliver 1.25 s" in shown(view(history, "s"))


def test_the_view_before_the_first_batch(golden: Golden) -> None:
    golden("view_empty.txt", shown(view(History(), "s")))


def test_many_queries_and_slices_fit_a_terminal() -> None:
    names = tuple(f"q{number}" for number in range(60))
    one = batch(1, queries=names)
    slices = tuple(SliceState(Interval(at * SECOND, (at + 1) * SECOND), at) for at in range(120))
    many = BatchProgress(
        **{**{key: getattr(one, key) for key in BatchProgress.__slots__}, "slices": {"chain 1": slices}}
    )
    text = shown(view(History.of([many], dict.fromkeys(names, "(-1 s, +1 s)")), "s"))
    assert len(text.splitlines()) < 50
    assert "and 46 more" in text
    assert "q59" in text, "those with the most rows are shown"
    assert "0 to +9 s" in " ".join(text.split())


def test_lines(golden: Golden) -> None:
    short = batch(3, limit=50_000, on_disk=50_000), batch(4, limit=50_000, on_disk=80_000, owing=1, deferred=1)
    golden("lines.txt", "\n".join(line(one) for one in (batch(1), batch(2, late=3, deferred=1), *short)))


def test_the_summary(golden: Golden) -> None:
    history = History.of([batch(1), batch(2, late=3), batch(3, queries=("near", "gone"), deferred=2)], WINDOWS)
    golden(
        "summary.txt",
        "\n".join(summary_lines(history, "state/s", PLACES, {"far": "ValueError: no\n  mine.py, line 3, in odd"})),
    )


def test_the_summary_when_memory_is_short(golden: Golden) -> None:
    last = batch(2, limit=50_000, on_disk=20_000, owing=7)
    golden("summary_memory.txt", "\n".join(summary_lines(History.of([last], WINDOWS), "state/s", PLACES, {})))


def test_the_summary_of_nothing() -> None:
    (text,) = summary_lines(History(), "state/s", {}, {})
    assert text.startswith("No batch")


def test_the_summary_for_machines() -> None:
    history = History.of([batch(1), batch(2)], WINDOWS)
    shown = summary_json(history, "state/s", PLACES, error="broken", stopped={"far": "ValueError: no"})
    found = json.loads(json.dumps(shown))
    assert found["stopped"] == {"far": "ValueError: no"}
    assert found["batches"] == found["last_batch"] == 2
    assert found["rows_in"] == {"T": 2_000, "H": 1_000}
    far = {"rows": 4_000, "median": 0.25, "p99": 1.0, "completeness": 1.0, "results": "kafka sink"}
    assert found["queries"]["far"] == far
    assert found["error"] == "broken"
    last = batch(2, limit=50_000, on_disk=20_000, owing=7)
    short = summary_json(History.of([last], WINDOWS), "state/s", PLACES, error=None, stopped={})
    assert [short[name] for name in ("memory_bytes", "memory_limit", "disk_bytes", "owing")] == [
        40_000,
        50_000,
        20_000,
        7,
    ]


def test_rates_are_those_of_the_last_ten_seconds() -> None:
    history = History.of([batch(1, rows=900_000), *(batch(20 + number) for number in range(4))], WINDOWS)
    # Four batches from 19.5 to 23 s after noon.
    assert history.rate_in("T") == pytest.approx(4_000 / 3.5)
    assert history.rate_in("T", NOON + 31) == pytest.approx(2_000 / 9.5)
    assert history.rate_in("T", NOON + 60) == 0


def test_response_times_are_weighed_by_rows() -> None:
    history = History.of([batch(number, rows=98 if number == 1 else 1) for number in (1, 2, 3)], WINDOWS)
    assert history.waits["near"].median == 0.25
    assert history.waits["near"].p99 == 1.0


def test_a_long_run_takes_no_more_room() -> None:
    history = History.of((batch(number % 50) for number in range(5_000)), WINDOWS)
    assert history.batches == 5_000
    assert history.rows_in["T"] == 5_000_000
    assert len(history.recent) < 200
