"""The engine at its edges: one hot key, and windows of growing size."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.compile import compile_script
from millstream.engine.engine import Engine
from millstream.lab.show import bars

_COLUMNS = "(k BIGINT, v DOUBLE, Ts TIMESTAMP)"
_MATCHES = 5


def hot_key(rows: int) -> Iterator[str]:
    """Joins `rows` rows of one key on each side and counts the pairs."""
    script = _script("WINDOW 1 HOUR", 1_000, 1)
    tables = {name: _table(np.ones(rows, dtype=np.int64), np.arange(rows)) for name in "AB"}
    counted = [0]

    def count(_: str, batch: pa.RecordBatch) -> None:
        counted[0] += batch.num_rows

    engine = Engine(compile_script(script), count)
    before = _in_use()
    start = time.perf_counter()
    engine.feed(tables)
    taken, used = time.perf_counter() - start, _peak() - before
    each = taken / counted[0] * 1e9
    yield f"{rows:,} x {rows:,} rows of one key: {counted[0]:,} pairs in {taken:.1f} s, {each:.0f} ns each"
    yield f"  peak memory above the inputs: {used / 1e6:.0f} MB (limit 500 MB)"


def scaling(most: int, png: Path | None = None, rounds: int = 3) -> Iterator[str]:
    """Time per input row for windows from 10,000 rows on, each row matching about five others.

    The best of several rounds, in which all sizes take turns, compared with the best-fitting straight line over the
    logarithm of the window.
    """
    sizes = [10**power for power in range(4, 19) if 10**power <= most]
    measured = [[_per_row(size) * 1e6 for size in sizes] for _ in range(rounds)]
    best = [min(some) for some in zip(*measured, strict=True)]
    yield f"time per input row, {_MATCHES} matches each, as the window grows: the best of {rounds} rounds"
    yield f"{'rows in the window':>20}  {'us per row':>10}"
    for size, taken in zip(sizes, best, strict=True):
        ratio = taken / best[0]
        yield f"{size:>20,}  {taken:>10.2f}  {bars(ratio, 4)} {ratio:.2f} of the first"
    if len(sizes) > 1:
        slope, base = (float(value) for value in np.polyfit(np.log10(sizes), best, 1))
        off = best[-1] / (base + slope * np.log10(sizes[-1])) - 1
        yield f"  best line: {slope:.2f} us more for every tenfold; the largest window lies {off:+.0%} off it"
    if png is not None:
        _plot(sizes, best, png)
        yield f"  plotted in {png}"


def _plot(sizes: list[int], best: list[float], png: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.semilogx(sizes, best, "o-", label="measured")
    axes.semilogx(sizes, np.polyval(np.polyfit(np.log10(sizes), best, 1), np.log10(sizes)), "--", label="best line")
    axes.set(xlabel="rows in the window", ylabel="us per input row", ylim=(0, None))
    axes.legend()
    figure.savefig(png, dpi=120, bbox_inches="tight")


def _per_row(window: int) -> float:
    """Fills a window of `window` rows on each side, then measures the mean over a fifth of it, in batches of 20,000."""
    keys = max(window // _MATCHES, 1)
    script = _script(f"WINDOW {window} MICROSECONDS", 1_000_000, keys)
    engine = Engine(compile_script(script), lambda _name, _rows: None)
    rng = np.random.default_rng(1)
    batch, clock, timed = 20_000, 0, []
    filled = window + max(5 * batch, window // 5)
    while clock < filled:
        size = batch if clock >= window else min(max(window // 4, batch), 1_000_000)
        times = np.arange(clock, clock + size)
        tables = {name: _table(rng.integers(0, keys, size), times) for name in "AB"}
        start = time.perf_counter()
        engine.feed(tables)
        if clock >= window:
            timed.append((time.perf_counter() - start) / (2 * size))
        clock += size
    return float(np.mean(timed))


def _script(window: str, rate: int, keys: int) -> str:
    hints = f"WITH (time = 'Ts', rate = {rate}, keys = {keys})"
    streams = [f"CREATE STREAM {name} {_COLUMNS} {hints};" for name in "AB"]
    return "\n".join([*streams, f"CREATE QUERY q AS SELECT A.v, B.v AS w FROM A, B WHERE A.k = B.k {window};"])


def _table(keys: np.ndarray, times: np.ndarray) -> pa.Table:
    stamps = pa.array(times.astype(np.int64)).view(pa.timestamp("us", "UTC"))
    return pa.table({"k": keys, "v": np.arange(len(keys), dtype=np.float64), "Ts": stamps})


def _in_use() -> int:
    """The memory in use now, which may be less than the peak so far: growth is counted from here."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
