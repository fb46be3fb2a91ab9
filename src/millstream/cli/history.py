"""The history of a run: totals since it began and the last few batches. Its memory does not grow with the run."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from millstream.pipeline.progress import BatchProgress

_RECENT = 120
_RATE_SECONDS = 10.0
PARTS = ("read", "join", "write", "Spark")
DELIVER = "deliver"
_SHOWN = 0.001
"""Less than this, in seconds, is what it takes to see that there is nothing to deliver."""
Rows = Callable[[BatchProgress], int]


@dataclass(slots=True)
class Waits:
    """Response times, weighted by rows. Batches report their median and 99th percentile; times are rounded to three
    digits.
    """

    medians: Counter[float] = field(default_factory=Counter)
    highest: Counter[float] = field(default_factory=Counter)

    def add(self, rows: int, median: float, p99: float) -> None:
        self.medians[float(f"{median:.3g}")] += rows
        self.highest[float(f"{p99:.3g}")] += rows

    @property
    def median(self) -> float:
        return _quantile(self.medians, 0.5)

    @property
    def p99(self) -> float:
        return _quantile(self.highest, 0.99)


def _quantile(times: Counter[float], share: float) -> float:
    left = share * times.total()
    for time, rows in sorted(times.items()):
        left -= rows
        if left <= 0:
            return time
    return 0.0


@dataclass(slots=True)
class History:
    """Totals of a run. `windows` holds the queries in force, each with its interval in words.

    `adaptation` is what was last done about memory, and why. `owed` is how many groups owed results when rows last
    came, or more since.
    """

    windows: dict[str, str] = field(default_factory=dict)
    batches: int = 0
    seconds: float = 0.0
    began: float = 0.0
    rows_in: Counter[str] = field(default_factory=Counter)
    rows_out: Counter[str] = field(default_factory=Counter)
    late: Counter[str] = field(default_factory=Counter)
    shed: Counter[str] = field(default_factory=Counter)
    waits: dict[str, Waits] = field(default_factory=dict)
    split: dict[str, float] = field(default_factory=dict)
    recent: deque[BatchProgress] = field(default_factory=lambda: deque(maxlen=_RECENT))
    messages: list[str] = field(default_factory=list)
    adaptation: str = ""
    owed: int = 0

    @classmethod
    def of(cls, batches: Iterable[BatchProgress], windows: Mapping[str, str]) -> History:
        found = cls(dict(windows))
        for batch in batches:
            found.add(batch)
        return found

    def add(self, batch: BatchProgress) -> None:
        if not self.batches:
            self.began = batch.committed - batch.seconds
        self.batches += 1
        self.seconds += batch.seconds
        self.rows_in.update(batch.rows_in)
        self.late.update(batch.late)
        self.shed.update(batch.shed)
        for query, response in batch.queries.items():
            self.rows_out[query] += response.rows
            self.waits.setdefault(query, Waits()).add(response.rows, response.median, response.p99)
        for part, spent in parts(batch).items():
            self.split[part] = self.split.get(part, 0.0) + spent
        if batch.adaptation:
            self._note(f"batch {batch.batch}: {batch.adaptation}")
        self.owed = batch.owing if any(batch.rows_in.values()) else max(batch.owing, self.owed)
        self.recent.append(batch)

    def _note(self, adaptation: str) -> None:
        """It has come as a message too, but has a line of its own: it must not push warnings out."""
        self.adaptation = adaptation
        with suppress(ValueError):
            self.messages.remove(adaptation)

    @property
    def last(self) -> BatchProgress | None:
        return self.recent[-1] if self.recent else None

    def queries(self) -> list[str]:
        """The queries in force, and dropped ones that gave rows."""
        return [*self.windows, *(name for name in self.rows_out if name not in self.windows)]

    def rate_in(self, stream: str, now: float | None = None) -> float:
        """Rows per second over the last ten seconds."""
        return self._rate(now, lambda batch: batch.rows_in.get(stream, 0))

    def rate_out(self, query: str, now: float | None = None) -> float:
        return self._rate(now, lambda batch: batch.queries[query].rows if query in batch.queries else 0)

    def _rate(self, now: float | None, rows: Rows) -> float:
        if self.last is None:
            return 0.0
        end = now or self.last.committed
        some = [batch for batch in self.recent if batch.committed > end - _RATE_SECONDS]
        if not some:
            return 0.0
        began = some[0].committed - some[0].seconds
        return sum(rows(batch) for batch in some) / max(end - began, 1e-6)


def parts(batch: BatchProgress) -> dict[str, float]:
    """Where a batch's time went: read, join, write, Spark, and delivery where there is any."""
    split = batch.split
    found = {
        "read": split.get("read", 0.0) + split.get("restore", 0.0),
        "join": split.get("join", 0.0),
        "write": split.get("write", 0.0) + split.get("commit", 0.0),
        "Spark": split.get("spark", 0.0),
    }
    delivered = split.get("deliver", 0.0)
    return {part: found[part] for part in PARTS} | ({DELIVER: delivered} if delivered >= _SHOWN else {})
