"""Random cases in which several queries share one join of two streams, and others one of three: their slices, access
paths and walks are what statistics decide.
"""

from __future__ import annotations

from hypothesis import strategies as st

from many_streams import (
    KEYS,
    MANY_CHOICES,
    MOST_ROWS,
    SETTINGS,
    ManyCase,
    ManyStream,
    batches_of,
    many_queries,
)
from millstream.engine.backlog import Budget

BUDGETS = [Budget(units=1), None, Budget(units=3), Budget(seconds=0), Budget(units=8)]
"""Most of them leave work for later."""


@st.composite
def sharing(draw: st.DrawFn, *, batches: tuple[int, int], late: bool = False) -> ManyCase:
    """Two to four queries over the same two streams, up to two over three, all by the same key."""
    kinds = {"x": draw(st.sampled_from(sorted(KEYS))), "y": "INT", "n": "INT", "m": "DECIMAL(4, 2)", "v": "DOUBLE"}
    kinds = {"id": "INT", **kinds, "Ts": "TIMESTAMP"}
    streams = [
        ManyStream(name=name, kinds=kinds, delay=draw(st.sampled_from([2, 0] if late else [2, 0, 5])), rate=rate)
        for name, rate in zip("ABC", draw(st.tuples(*[st.sampled_from([80, 1])] * 3)), strict=True)
    ]
    names = [f"q{number}" for number in range(draw(st.sampled_from([3, 2, 4])))]
    queries = [draw(many_queries(name, "AB", several_keys=False, each_once=True)) for name in names]
    # Where three streams are joined by the same key, all their pools are indexed.
    names = [f"t{number}" for number in range(draw(st.sampled_from([0, 1, 0, 2])))]
    queries += [draw(many_queries(name, "ABC", several_keys=False, each_once=True)) for name in names]
    cap = MOST_ROWS[max(len(query.streams) for query in queries)]
    arriving = draw(batches_of(streams, cap, draw(st.integers(*batches)), late=late))
    chosen = draw(MANY_CHOICES)
    settings = {name: chosen.of(values) for name, values in SETTINGS.items()}
    return ManyCase(
        streams=tuple(streams),
        queries=tuple(queries),
        batches=tuple(arriving),
        settings={**settings, "slicing": "cpu", "costs": draw(st.sampled_from(["calibrated", "calibrated", "paper"]))},
        budget=draw(st.sampled_from(BUDGETS)),
    )
