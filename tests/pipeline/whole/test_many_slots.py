"""Many slots on one machine: the right rows, through a restart, and no more to send to each than with two."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millstream.compile import compile_script
from millstream.pipeline.packing import packed
from millstream.pipeline.placement import Placement, Run
from millstream.pipeline.slot import SlotReport
from millstream.testing import naive
from two_streams import PAIR, START, STREAMS, same

SLOTS = int(os.environ.get("MILLSTREAM_SLOTS", "12"))
"""Each is a task of Spark in every batch, so hundreds take minutes."""
SCRIPT = f"""{STREAMS}
CREATE STREAM C (k INT, v DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');
CREATE QUERY pairs AS {PAIR} WINDOW 30 SECONDS;
CREATE QUERY path AS SELECT A.k, B.v AS bv, C.k AS ck FROM A, B, C WHERE A.k = B.k AND B.v = C.v WINDOW 15 SECONDS;
"""
BATCHES = [
    {
        name: [
            {"k": (n * factor) % 37, "v": float(n % 11), "Ts": START + timedelta(seconds=10 * batch + n % 10)}
            for n in range(rows)
        ]
        for name, factor, rows in (("A", 3, 24), ("B", 5, 24), ("C", 7, 4))
    }
    for batch in range(4)
]


def test_rows_of_all_slots_are_those_of_nested_loops(mill: Callable[..., Any]) -> None:
    """In the path the rows of one stream go to every slot. Between the starts all state comes from files."""
    plan = compile_script(SCRIPT)
    assert any(pool.spread.everywhere for pool in plan.pools)
    for some in (BATCHES[:2], BATCHES[2:]):
        found = mill(SCRIPT, settings={"slots": str(SLOTS)})
        for batch in some:
            found.put(batch)
        found.pipeline.drain()
        assert len(found.pipeline.executors) == SLOTS
    rows = {name: [row for batch in BATCHES for row in batch[name]] for name in "ABC"}
    for query in plan.script.queries:
        wanted = naive(query, rows)
        assert len(wanted) > 10
        same(found.results(query.name), wanted)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the function that goes to every slot, batch by batch."""
    sizes: list[int] = []
    run = Placement.run

    def measured(placement: Placement, rows: Any, work: Run, **more: Any) -> list[SlotReport]:
        sizes.append(len(packed(work)))
        return run(placement, rows, work, **more)

    monkeypatch.setattr(Placement, "run", measured)
    return sizes


def test_what_is_sent_to_a_slot_does_not_grow_with_their_number(
    mill_at: Callable[..., Any], tmp_path: Path, sent: list[int]
) -> None:
    largest, state = {}, {}
    for slots in (2, SLOTS):
        place = tmp_path / f"{slots:03}"
        found = mill_at(place, SCRIPT, settings={"slots": str(slots)})
        for batch in BATCHES:
            found.put(batch)
        sent.clear()
        found.pipeline.drain()
        assert len(sent) >= len(BATCHES)
        largest[slots] = max(sent)
        state[slots] = max(path.stat().st_size for path in (place / "state/manifest").glob("*.json"))
    assert state[SLOTS] > SLOTS / 8 * state[2], "the state itself does grow"
    assert largest[SLOTS] <= largest[2] + 64, "but for the digits of a few numbers"
