"""Groups go to disk and come back while queries come and go: what a query gets does not depend on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from histories import LONGEST, SLOW, History, Way, check, histories, in_order, on_slots, stayed, ways
from millstream.engine.batch import Results
from millstream.engine.memory import MemoryLimit
from millstream.engine.shard import Shard

PARTS = 4
EXAMPLES = max(int(os.environ.get("MILLSTREAM_EXAMPLES", "2000")) // 8 // PARTS, settings().max_examples - 100)


def by_chance(seed: int) -> Callable[[Shard], Iterator[Results]]:
    """Spills some groups, cleans some up, or does nothing."""
    chance = np.random.default_rng(seed)

    def then(shard: Shard) -> Iterator[Results]:
        count = shard.memory.grouping.count
        for _ in range(chance.choice([0, 1, 1, 2])):
            groups = int.from_bytes(chance.bytes(count // 8)) if chance.random() < 0.8 else (1 << count) - 1
            if chance.random() < 0.7:
                shard.spill(groups)
            else:
                yield from shard.clean_up(groups, keep=chance.random() < 0.5)
        event(f"owing: {bool(shard.memory.spilled.owing)}")

    return then


@pytest.mark.parametrize("_part", range(PARTS))
@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(history=histories(), way=ways(), seed=st.integers(0, 2**20), limit=st.sampled_from([None, None, 1, 500, 2_000]))
def test_spilling_changes_nothing(history: History, way: Way, seed: int, limit: int | None, _part: int) -> None:
    memory = None if limit is None else MemoryLimit(nbytes=limit, inactive=0.0 if seed % 2 else 60.0)
    found = on_slots(history, way, 1, memory=memory, then=by_chance(seed))
    alike = in_order if way.order == "strict" else stayed
    assert alike(history, found) == alike(history, on_slots(history, way, 1))
    check(history, way, found, spills=True)


@settings(max_examples=EXAMPLES, suppress_health_check=SLOW)
@given(
    history=histories(several_keys=False),
    way=ways(),
    seed=st.integers(0, 2**20),
    limit=st.sampled_from([None, None, 500]),
    slots=st.sampled_from([2, 3]),
)
def test_moving_changes_nothing(history: History, way: Way, seed: int, limit: int | None, slots: int) -> None:
    memory = None if limit is None else MemoryLimit(nbytes=limit)
    found = on_slots(history, way, slots, memory=memory, then=by_chance(seed), moves=random_moves(seed, slots))
    assert stayed(history, found) == stayed(history, on_slots(history, way, 1))
    check(history, way, found, spills=True)


def random_moves(seed: int, slots: int) -> list[list[tuple[int, int, int]]]:
    """After each batch, which groups go from which slot to which."""
    chance = np.random.default_rng(seed)

    def one() -> tuple[int, int, int]:
        sender, receiver = chance.integers(0, slots, 2).tolist()
        return sender, receiver, int.from_bytes(chance.bytes(128))

    return [[one() for _ in range(chance.integers(0, 4))] for _ in range(LONGEST)]
