"""The generator of state-adapt 3.4: three streams in partitions, with a given join ratio each.

Within a *tuple range* of so many tuples of a stream, every key of a partition with *range join ratio* r comes r times
on average. So in the first range a tuple finds up to r partners in each of the other streams, in the second one up to
2 r, and so on: states only grow. Keys are chosen so that a partition is a partition group of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.engine.groups import Grouping
from millstream.engine.keys import Codes, codes
from millstream.lab.workloads.generators import SECOND
from millstream.plan import Plan

STREAMS = "ABC"
PARTITIONS = 300
Ints = npt.NDArray[np.int64]
Coding = Callable[[Ints], Codes]
"""The codes of whole numbers as keys."""


def engine_codes(keys: Ints) -> Codes:
    """Codes where no Spark has computed them."""
    return codes([pa.array(keys)], len(keys))


def even(ratio: int, partitions: int = PARTITIONS) -> tuple[int, ...]:
    """The same join ratio for all partitions."""
    return (ratio,) * partitions


def thirds(ratios: Sequence[int] = (4, 2, 1), partitions: int = PARTITIONS) -> tuple[int, ...]:
    """Join ratios by equal parts of the partitions, which take turns."""
    return tuple(ratios[partition % len(ratios)] for partition in range(partitions))


@dataclass(frozen=True, kw_only=True)
class JoinRatio:
    """`tuples` of each stream in equal batches, a step of `seconds` each, with a join ratio for each partition.

    In every batch up to the first of `turns` the partitions of `favoured` get `factor` times as many tuples as the
    others, then up to the next turn the others do, and so on.
    """

    ratios: tuple[int, ...]
    tuples: int = 100_000
    tuple_range: int = 30_000
    batches: int = 100
    seconds: float = 30.0
    groups: int = 512
    turns: tuple[int, ...] = ()
    favoured: frozenset[int] = frozenset()
    factor: float = 10.0
    seed: int = 1
    coding: Coding = engine_codes

    def script(self, settings: Mapping[str, str | float] | None = None) -> str:
        """The three-way join, with a window that is longer than the run."""
        chosen = {"groups": self.groups, **(settings or {})}
        sets = "".join(f"SET {name} = {value!r};\n" for name, value in chosen.items())
        streams = "".join(
            f"CREATE STREAM {name} (Id BIGINT, K BIGINT, V DOUBLE, Ts TIMESTAMP) WITH (time = 'Ts');\n"
            for name in STREAMS
        )
        window = int(self.batches * self.seconds) + 3600
        return (
            f"{sets}{streams}CREATE QUERY triples AS SELECT A.Id AS A_Id, B.Id AS B_Id, C.Id AS C_Id "
            f"FROM A JOIN B ON A.K = B.K JOIN C ON B.K = C.K WINDOW {window} SECONDS;\n"
        )

    @cached_property
    def keys(self) -> list[Ints]:
        """The keys of each partition: the partition with number p is partition group p."""
        wanted = [max(1, round(self.tuple_range / len(self.ratios) / ratio)) for ratio in self.ratios]
        return keys_of_groups(wanted, self.groups, self.coding)

    def favour(self, batch: int) -> npt.NDArray[np.float64]:
        """The share of each partition in the tuples of a batch, from 0."""
        weights: npt.NDArray[np.float64] = np.ones(len(self.ratios))
        if self.favoured:
            own = np.isin(np.arange(len(weights)), list(self.favoured))
            turned = sum(batch >= turn for turn in self.turns) % 2
            weights[own != bool(turned)] = self.factor
        shares: npt.NDArray[np.float64] = weights / weights.sum()
        return shares

    def stream(self, name: str) -> Iterator[pa.Table]:
        """The batches of a stream: Id, K, V and Ts."""
        chance = np.random.default_rng([self.seed, STREAMS.index(name)])
        counts = np.array([len(some) for some in self.keys])
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        every = np.concatenate(self.keys)
        each, done = self.tuples // self.batches, 0
        for batch in range(self.batches):
            partitions = chance.choice(len(counts), each, p=self.favour(batch))
            chosen = first[partitions] + (chance.random(each) * counts[partitions]).astype(np.int64)
            times = ((batch + np.arange(each) / each) * self.seconds * SECOND).astype(np.int64)
            yield pa.table(
                {
                    "Id": np.arange(done, done + each),
                    "K": every[chosen],
                    "V": chance.random(each),
                    "Ts": pa.array(times).view(pa.timestamp("us", "UTC")),
                }
            )
            done += each

    def rows(self) -> Iterator[dict[str, pa.Table]]:
        """The batches of all streams."""
        for tables in zip(*(self.stream(name) for name in STREAMS), strict=True):
            yield dict(zip(STREAMS, tables, strict=True))

    def results(self) -> int:
        """How many results the join has: every combination of equal keys."""
        every = np.concatenate(self.keys)
        place = np.argsort(every)
        found = np.ones(len(every), dtype=np.int64)
        for name in STREAMS:
            drawn = np.concatenate([np.asarray(table.column("K")) for table in self.stream(name)])
            places = place[np.searchsorted(every, drawn, sorter=place)]
            found *= np.bincount(places, minlength=len(every))
        return int(found.sum())


def keys_of_groups(wanted: Sequence[int], groups: int, coding: Coding) -> list[Ints]:
    """For each partition group from the first on, so many keys that are in it: the least ones."""
    grouping = Grouping(groups)
    candidates = 2 * groups * max(wanted)
    while True:
        keys = np.arange(candidates)
        of = grouping.of(coding(keys))
        ordered = keys[np.argsort(of, kind="stable")]
        counts = np.bincount(of, minlength=groups)
        if all(counts[group] >= count for group, count in enumerate(wanted)):
            starts = np.cumsum(counts) - counts
            return [ordered[starts[group] : starts[group] + count] for group, count in enumerate(wanted)]
        candidates *= 2


def pools_of(plan: Plan, stream: str) -> list[str]:
    """The pools that take the rows of a stream."""
    return [pool.name for pool in plan.pools if pool.stream.name == stream]
