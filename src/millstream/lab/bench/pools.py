"""`millstream bench pools`: eight queries over pairs and triples of four streams, and how much state they keep.

The same rows three times: on the engine with all queries sharing pools, on the engine with every chain alone, and as
native Spark joins. Each counts at its greatest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.lab.bench.native_multiway import NativeMultiway
from millstream.lab.show import bars, verdict
from millstream.lab.workloads.generators import SECOND
from millstream.lab.workloads.stream_files import answers_in, answers_to
from millstream.lab.workloads.window_joins import Readings, WindowJoin
from millstream.pipeline.session import make_session

STREAMS = "ABCD"
JOINS = (
    WindowJoin("AB", 600),
    WindowJoin("AC", 500),
    WindowJoin("BD", 400),
    WindowJoin("CD", 600),
    WindowJoin("ABC", 600),
    WindowJoin("ABD", 400),
    WindowJoin("ACD", 500),
    WindowJoin("BCD", 300),
)
_RATE, _KEYS, _BATCHES = 100, 50_000, 20
_GOAL = 1 / 3


@dataclass(frozen=True, slots=True)
class Kept:
    """The peak of an engine's state in bytes, the rows it gave each query, and the engine after the last batch."""

    nbytes: int
    given: Mapping[str, int]
    engine: Engine


@dataclass(frozen=True, slots=True)
class OfStream:
    """The rows of a stream that some query may still need, how many of them its pools have, and all rows they have."""

    needed: int
    kept: int
    rows: int


def report(
    rows: int = 100_000,
    batches: int = _BATCHES,
    *,
    native: bool = True,
    place: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """The table of the command; `rows` are those of each stream."""
    readings = Readings(streams=STREAMS, rows=rows, rate=_RATE, keys=_KEYS)
    parts = fed(readings, batches)
    count = sum(len(table) for part in parts for table in part.values())
    yield f"{count:,} rows of four streams in {batches} batches, {_KEYS:,} keys, {_RATE} rows/s each"
    yield f"queries (streams and seconds): {', '.join(join.name for join in JOINS)}"
    tell("pools")
    shared = run(readings, JOINS, parts)
    alone = []
    for join in JOINS:
        tell(f"{join.name} alone")
        alone.append(run(readings, [join], parts))
    held = {"pools, which all queries share": shared.nbytes, "a state per chain": sum(one.nbytes for one in alone)}
    with tempfile.TemporaryDirectory(prefix="millstream-", dir=place) as temporary:
        files = readings.write(Path(temporary) / "in", batches)
        expected = answers_to(files, readings.script(JOINS))
        right = {name: answer.rows for name, answer in expected.items()}
        same = [shared.given == right, {name: n for one in alone for name, n in one.given.items()} == right]
        if native:
            tell("native Spark joins")
            spark = make_session("pools", options={"spark.driver.memory": "8g"})
            out = Path(temporary) / "out"
            ran = NativeMultiway.beside(spark, files).run(JOINS, out, tell)
            held["a native Spark query for each"] = ran.state_bytes
            same.append(answers_in(out / "results", readings.script(JOINS)) == expected)
    yield ""
    yield "state at its greatest"
    for name, nbytes in held.items():
        yield (f"  {name:32}{nbytes / 1e6:>9.1f} MB{nbytes / shared.nbytes:>8.1f}x  {bars(nbytes, max(held.values()))}")
    yield ""
    yield from _once(readings, shared, parts)
    share = shared.nbytes / sum(one.nbytes for one in alone)
    yield f"pools take at most 1/3 of a state per chain: {share:.2f}  {verdict(share <= _GOAL)}"
    yield f"all gave the rows DuckDB gives ({sum(right.values()):,} in all): {verdict(all(same))}"


def fed(readings: Readings, batches: int) -> list[dict[str, pa.Table]]:
    """The rows of all streams, batch by batch."""
    streams = [readings.sensors().batches(seed, batches) for seed, _ in enumerate(readings.streams, start=1)]
    return [dict(zip(readings.streams, tables, strict=True)) for tables in zip(*streams, strict=True)]


def run(readings: Readings, joins: Sequence[WindowJoin], parts: Sequence[Mapping[str, pa.Table]]) -> Kept:
    """Some queries on an engine that is given only the streams they read."""
    given = dict.fromkeys((join.name for join in joins), 0)

    def count(name: str, rows: pa.RecordBatch) -> None:
        given[name] += rows.num_rows

    engine, most = Engine(compile_script(readings.script(joins)), count), 0
    read = {stream for join in joins for stream in join.streams}
    for part in parts:
        engine.feed({name: table for name, table in part.items() if name in read})
        most = max(most, sum(segment.nbytes for pool in engine.pools() for segment in pool.segments))
    return Kept(most, given, engine)


def kept_once(readings: Readings, kept: Kept, parts: Sequence[Mapping[str, pa.Table]]) -> dict[str, OfStream]:
    """What the pools have of each stream, beside what the definition of the queries needs after these rows."""
    times = {name: np.concatenate([_times(part[name]) for part in parts]) for name in readings.streams}
    found = {}
    for stream, all_times in times.items():
        expired = min(
            min(int(times[other].max()) for other in join.streams) - (readings.delay + join.seconds) * SECOND
            for join in JOINS
            if stream in join.streams
        )
        pools = [pool for pool in kept.engine.pools() if pool.pool.stream.name == stream]
        held = np.concatenate([[], *(segment.times for pool in pools for segment in pool.segments)])
        found[stream] = OfStream(int((all_times > expired).sum()), int((held > expired).sum()), len(held))
    return found


def _once(readings: Readings, kept: Kept, parts: Sequence[Mapping[str, pa.Table]]) -> Iterator[str]:
    found = kept_once(readings, kept, parts)
    for stream, one in found.items():
        late = one.rows / one.needed - 1
        yield f"  {stream}: {one.needed:,} rows in its windows, {one.kept:,} in pools (and {late:.0%} not yet dropped)"
    yield f"each stream is kept once: {verdict(all(one.needed == one.kept for one in found.values()))}"


def _times(table: pa.Table) -> np.ndarray:
    return np.asarray(table["Ts"].cast(pa.int64()))
