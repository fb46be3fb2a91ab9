"""Which rows of a case are late for which chains and queries, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from many_streams import ManyCase, Rows
from millstream.engine.judge import Late
from millstream.plan import Plan

Told = dict[tuple[str, int], tuple[str, frozenset[str]]]
"""For each row that is told, by stream and number: the reason, and the titles of the chains it is late for."""


class Watermarks:
    """Which rows are late: those older than the greatest time of earlier batches minus the delay, of the stream of the
    chain that lies furthest behind.
    """

    def __init__(self, case: ManyCase) -> None:
        self._delays = {stream.name: timedelta(seconds=stream.delay) for stream in case.streams}
        self._before: list[dict[str, datetime]] = []
        greatest: dict[str, datetime] = {}
        for batch in case.batches:
            self._before.append(dict(greatest))
            for name, rows in batch.items():
                for row in rows:
                    if row["Ts"] is not None:
                        greatest[name] = max(row["Ts"], greatest.get(name, row["Ts"]))

    def of(self, streams: tuple[str, ...], batch: int) -> datetime | None:
        """The watermark of a chain of these streams; None as long as one of them has had no row."""
        known = self._before[batch]
        if not known.keys() >= set(streams):
            return None
        return min(known[name] - self._delays[name] for name in streams)

    def is_late(self, row: Mapping[str, Any], streams: tuple[str, ...], batch: int) -> bool:
        watermark = self.of(streams, batch)
        return watermark is not None and row["Ts"] < watermark


class LateRows:
    """What is to be told of late rows, and what each query sees of the others."""

    def __init__(self, case: ManyCase, plan: Plan) -> None:
        watermarks = Watermarks(case)
        chains = {chain.title: tuple(stream.name for stream in chain.streams) for chain in plan.chains}
        self.expected: Told = {}
        self._seen: dict[str, dict[str, Rows]] = {query.name: defaultdict(list) for query in case.queries}
        for number, batch in enumerate(case.batches):
            for name, rows in batch.items():
                for row in rows:
                    if row["Ts"] is None:
                        self.expected[name, row["id"]] = "null time", frozenset()
                        continue
                    late = {
                        title
                        for title, streams in chains.items()
                        if name in streams and watermarks.is_late(row, streams, number)
                    }
                    if late:
                        self.expected[name, row["id"]] = "older than the watermark", frozenset(late)
                    for query in case.queries:
                        if not watermarks.is_late(row, query.streams, number):
                            self._seen[query.name][name].append(row)

    @property
    def any_late(self) -> bool:
        """Whether a row is late for a chain."""
        return any(chains for _, chains in self.expected.values())

    def in_time(self, query: str) -> dict[str, Rows]:
        """The rows that are not late for a query."""
        return self._seen[query]

    def told(self, late: Iterable[Late]) -> Told:
        """What was told, each row once."""
        found = [
            ((one.stream, number), (one.reason, frozenset(one.chains)))
            for one in late
            for number in one.rows.column("id").to_pylist()
        ]
        assert len(found) == len(dict(found)), "a row is told twice"
        return dict(found)
