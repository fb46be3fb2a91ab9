"""The rows of a batch, checked for lateness once for all chains of a shard, and split by pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.engine.arrow import microseconds
from millstream.engine.batch import BatchInput, StreamRows
from millstream.engine.judge import Late, Limits, by_lateness, judged
from millstream.engine.pool_run import Arriving
from millstream.engine.release import SEQUENCE
from millstream.engine.watermark import FAR
from millstream.model.stream import Stream
from millstream.plan.nodes import Chain, PoolName, Signature


@dataclass(slots=True)
class Arrivals:
    """The rows of a batch that can be used, its late rows, and for each stream the row count and the first and the
    last time.
    """

    readers: Mapping[PoolName, Sequence[Signature]]
    usable: list[tuple[Stream, Sequence[PoolName], list[pa.RecordBatch]]] = field(default_factory=list)
    rows_in: dict[str, int] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)

    def take_in(self, given: StreamRows, limits: Limits, first: int | None) -> None:
        """Checks the rows of a stream for lateness. Where their order matters, they are numbered from `first` on."""
        stream, usable = given.stream, []
        for part in given.parts:
            rows, late = judged(stream, part, limits)
            if given.counted:
                self.rows_in[stream.name] = self.rows_in.get(stream.name, 0) + part.num_rows
                self.late += late
            if not rows.num_rows:
                continue
            times = microseconds(rows.column(stream.time))
            earliest, latest = int(times.min()), int(times.max())
            self.greatest[stream.name] = max(latest, self.greatest.get(stream.name, latest))
            self.least[stream.name] = min(earliest, self.least.get(stream.name, earliest))
            if first is not None:
                rows = rows.append_column(SEQUENCE, pa.array(np.arange(first, first + rows.num_rows)))
                first += rows.num_rows
            usable.append(rows)
        self.usable.append((stream, given.pools, usable))

    def parts(self, watermarks: Mapping[Signature, int]) -> Iterator[dict[PoolName, Arriving]]:
        """The rows for each pool: one part, unless columns cannot hold all."""
        for number in range(max((len(rows) for *_, rows in self.usable), default=0)):
            found: dict[PoolName, Arriving] = {}
            for stream, pools, parts in self.usable:
                if number < len(parts):
                    for pool in pools:
                        levels = {one: watermarks[one] for one in self.readers[pool]}
                        found[pool] = by_lateness(stream, parts[number], levels)
            yield found


def arrivals(
    given: BatchInput,
    chains: Sequence[Chain],
    readers: Mapping[PoolName, Sequence[Signature]],
    watermarks: Mapping[Signature, int],
    *,
    numbered: bool,
) -> Arrivals:
    """Checks a batch for late rows by the watermarks and horizons known before it; `readers` are the chains that read
    each pool.
    """
    found = Arrivals(readers)
    for rows in given.rows:
        concerned = [chain for chain in chains if rows.stream.name in (one.name for one in chain.streams)]
        levels = [(chain.title, watermarks[chain.signature]) for chain in concerned]
        limits = Limits(given.horizons.get(rows.stream.name, FAR), levels)
        # Numbers grow from batch to batch, and within a batch in the order of arrival.
        found.take_in(rows, limits, given.batch << 32 if numbered else None)
    return found
