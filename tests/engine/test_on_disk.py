"""A segment on disk says what it is without being opened, and units find its rows as if it were in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limited import COUNT, Batch, Limited, group_of, plan_of, row
from millstream.engine.chain_run import ChainRun
from millstream.engine.files import DamagedFileError, Files
from millstream.engine.groups import group_set
from millstream.engine.on_disk import OnDisk, Piece
from millstream.engine.pool_manifest import SegmentEntry
from millstream.engine.segment import Segment
from millstream.engine.units import Unit

ROWS: Batch = {name: [row(100 * place + n, n % 5, n % 4) for n in range(12)] for place, name in enumerate("ABC")}
QUERIES = {"two streams": ("wide", "narrow"), "itself": ("self",), "three": ("three",), "several keys": ("path",)}


def spilled(place: Path, *queries: str) -> Limited:
    """A shard whose groups have been spilled after a batch."""
    found = Limited(plan_of(*queries), Files.at(place))
    found.run(ROWS)
    found.spill()
    return found


def on_disk(limited: Limited) -> list[OnDisk]:
    return [one for pool in limited.shard.pools() for one in pool.on_disk]


def test_what_is_known_of_it_is_what_its_rows_say(tmp_path: Path) -> None:
    for one in on_disk(spilled(tmp_path, "wide")):
        rows = one.open()
        assert isinstance(rows, Segment)
        assert rows is not one.open(), "read anew each time"
        assert (one.number, one.batch, one.reach, len(one)) == (rows.number, rows.batch, rows.reach, len(rows))
        assert (one.first, one.last, one.hidden_from) == (rows.first, rows.last, rows.hidden_from)
        keys = rows.rows.column("k").to_pylist()
        assert one.groups == group_set(map(group_of, keys))
        share = Counter(map(group_of, keys))
        each = one.nbytes // len(one)
        assert one.group_bytes.tolist() == [share[group] * each for group in range(COUNT)]


def test_nothing_is_opened_until_rows_are_asked_for(tmp_path: Path) -> None:
    limited = spilled(tmp_path, "wide")
    limited.saved = limited.shard.saved(limited.kept)
    for path in tmp_path.glob("*.arrow"):
        path.unlink()
    limited.restart()
    (one, *_) = on_disk(limited)
    assert len(one) == 12
    with pytest.raises(DamagedFileError, match="is missing"):
        one.open()


def pairs(
    chain: ChainRun, units: Iterable[Unit[Piece]], opened: dict[int, Segment] | None
) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for unit in units:
        for joined in chain.execute([unit], opened):
            found.update((query, one["a"], one["b"]) for query in joined.queries for one in joined.rows.to_pylist())
    return found


@pytest.mark.parametrize("queries", sorted(QUERIES))
@settings(max_examples=10)
@given(chosen=st.sets(st.integers(0, 3)), shared=st.booleans())
def test_units_find_the_same_whether_segments_are_in_memory_or_on_disk(
    queries: str, tmp_path_factory: pytest.TempPathFactory, chosen: set[int], shared: bool
) -> None:
    """Some of the segments of a unit are on disk; they are opened once where they are kept for the next unit."""
    limited = spilled(tmp_path_factory.mktemp("on_disk"), *QUERIES[queries])
    (chain,) = limited.shard.chains()
    mixed: dict[str, list[Piece]] = {}
    plain: dict[str, list[Piece]] = {}
    places = count()
    opens: Counter[int] = Counter()
    for pool in limited.shard.pools():
        pieces = [
            counting(one, opens) if isinstance(one, OnDisk) and next(places) not in chosen else one.open()
            for one in pool.pieces
        ]
        mixed[pool.pool.name], plain[pool.pool.name] = pieces, [one.open() for one in pool.pieces]
    found, wanted = (
        pairs(chain, units_of(chain, some), opened) for some, opened in ((mixed, {} if shared else None), (plain, None))
    )
    assert wanted
    assert found == wanted
    if shared:
        assert set(opens.values()) <= {1}


def counting(one: OnDisk, opens: Counter[int]) -> OnDisk:
    """The same segment; it counts how often it is opened."""
    load = one.load

    def counted(entry: SegmentEntry) -> Segment:
        opens[entry.number] += 1
        return load(entry)

    return OnDisk(one.entry, one.groups, one.grouping, counted, one.count)


def units_of(chain: ChainRun, pieces: dict[str, list[Piece]]) -> Iterable[Unit[Piece]]:
    """All that the segments at the last position have with those at the others."""
    at = len(chain.chain.streams) - 1
    steps = sorted(chain.chain.walks[at], key=lambda step: step.position)
    for probe in pieces[chain.chain.pools[at]]:
        yield from chain._compiled.units(probe, at, [pieces[step.pool] for step in steps])
