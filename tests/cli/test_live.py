"""How batches look: the view on a terminal, the line per batch, the summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from itertools import pairwise

import pytest
from rich.console import Console, RenderableType

from millstream.cli.history import History
from millstream.cli.live import line, view
from millstream.cli.summary import summary_json, summary_lines
from millstream.model.interval import Interval
from millstream.pipeline.progress import BatchProgress, Response, SliceState

Golden = Callable[[str, str], None]
SECOND = 1_000_000
NOON = 1_700_000_000.0
WINDOWS = {"near": "(-1 s, +1 s)", "far": "(-1 min, +1 min)"}
PLACES = {"near": "state/s/results/near", "far": "kafka sink"}


def batch(
    number: int, *, rows: int = 1_000, late: int = 0, deferred: int = 0, queries: tuple[str, ...] = ("near", "far")
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
        deferred=deferred,
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
    golden("lines.txt", "\n".join(line(one) for one in (batch(1), batch(2, late=3, deferred=1))))


def test_the_summary(golden: Golden) -> None:
    history = History.of([batch(1), batch(2, late=3), batch(3, queries=("near", "gone"), deferred=2)], WINDOWS)
    golden("summary.txt", "\n".join(summary_lines(history, "state/s", PLACES)))


def test_the_summary_of_nothing() -> None:
    (text,) = summary_lines(History(), "state/s", {})
    assert text.startswith("No batch")


def test_the_summary_for_machines() -> None:
    found = json.loads(json.dumps(summary_json(History.of([batch(1), batch(2)], WINDOWS), "state/s", PLACES, "broken")))
    assert found["batches"] == found["last_batch"] == 2
    assert found["rows_in"] == {"T": 2_000, "H": 1_000}
    assert found["queries"]["far"] == {"rows": 4_000, "median": 0.25, "p99": 1.0, "results": "kafka sink"}
    assert found["error"] == "broken"


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
