"""Figures 9 to 12 and the clean-up of section 4.4: how much to spill, and what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from millstream.engine.memory import MemoryLimit
from millstream.lab.papers.state_adapt.run import Outcome, Setup, Tell
from millstream.lab.papers.state_adapt.shown import claim, complete, curves, results, saved
from millstream.lab.workloads.join_ratio import JoinRatio, even, thirds

PUSHED = (0.1, 0.3, 0.5, 1.0)
LOW, HIGH = "low productivity first", "high productivity first"
_BETTER = 1.5


@dataclass(frozen=True, kw_only=True)
class Disk:
    """The paper's 50 minutes on one machine, a tuple every 30 ms on each stream, of which memory holds `room`."""

    out: Path
    tuples: int = 100_000
    batches: int = 100
    room: float = 0.5
    tell: Tell = field(default=lambda _: None)

    def streams(self, ratios: tuple[int, ...]) -> JoinRatio:
        return JoinRatio(
            ratios=ratios,
            tuples=self.tuples,
            tuple_range=round(self.tuples * 0.3),
            batches=self.batches,
            seconds=3_000 / self.batches,
        )

    def unlimited(self, streams: JoinRatio) -> Outcome:
        return Setup(streams=streams).run("no limit", self.tell)

    def limited(self, whole: Outcome, label: str, share: float = 0.3, *, productive_first: bool = False) -> Outcome:
        """All groups get rows all the time, so none is inactive. What is spilled stays on disk to the end."""
        limit = MemoryLimit(
            nbytes=self.nbytes(whole), share=share, inactive=3_600, room=0, productive_first=productive_first
        )
        return Setup(streams=whole.streams, limit=limit).run(label, self.tell)

    def nbytes(self, whole: Outcome) -> int:
        return int(self.room * max(whole.memory()) * 1e6)

    def _told(self, whole: Outcome) -> str:
        return (
            f"{self.tuples:,} tuples of each of three streams in 50 min, {len(whole.streams.ratios)} partitions; "
            f"memory {self.nbytes(whole) / 1e6:.1f} MB, {self.room:.0%} of what all state takes"
        )

    def figures_9_and_10(self) -> Iterator[str]:
        """How much is spilled at once."""
        yield "state-adapt Figures 9 and 10: how much is spilled at once; join ratio 3 in all partitions"
        whole = self.unlimited(self.streams(even(3)))
        yield self._told(whole)
        found = {"0 %": whole} | {
            f"{share:.0%}".replace("%", " %"): self.limited(whole, f"{share:.0%}", share) for share in PUSHED
        }
        yield from results(found)
        yield from curves(whole.minutes, {name: one.memory() for name, one in found.items()}, "memory, MB", ".1f")
        pushes = {name: one.pushes for name, one in found.items()}
        given = [one.running for one in found.values()]
        fewer = " > ".join(f"{one:,}" for one in given)
        yield claim(
            "the more is spilled at once, the fewer results while it runs",
            paper="0 % > 10 % > 30 % > 50 % > 100 %",
            measured=fewer,
            holds=all(more > less for more, less in pairwise(given)),
        )
        limited = [one for name, one in found.items() if name != "0 %"]
        most = max(max(one.memory()) for one in limited)
        limit = self.nbytes(whole) / 1e6
        yield claim(
            "memory is controlled",
            paper="stays at the limit",
            measured=f"at most {most:.1f} of {limit:.1f} MB after a batch",
            holds=most <= limit,
        )
        counts = list(pushes.values())[1:]
        yield claim(
            "the more is spilled at once, the fewer times",
            paper="fewer",
            measured=" > ".join(map(str, counts)),
            holds=all(more > less for more, less in pairwise(counts)),
        )
        yield complete(found)
        yield "  (the paper spills groups by chance; here the least productive go first, which are alike)"
        yield from saved(self.out, "figure_9", found)
        yield from saved(self.out, "figure_10", found, memory=True)

    def figure_11(self) -> Iterator[str]:
        """Different join ratios: which groups are spilled."""
        yield "state-adapt Figure 11 and section 4.4: which groups are spilled; join ratios 4, 2 and 1 by thirds"
        whole = self.unlimited(self.streams(thirds()))
        yield self._told(whole)
        found = self._orders(whole)
        yield from results(found)
        low, high = found[LOW], found[HIGH]
        yield claim(
            f"low productivity first gives at least {_BETTER} times the results while it runs",
            paper="a much higher throughput",
            measured=f"{low.running / high.running:.2f} times",
            holds=low.running >= _BETTER * high.running,
        )
        yield f"  {'clean-up':<26}{'rows':>12}{'seconds':>10}{'rows, paper':>14}{'seconds, paper':>16}"
        for name, one, rows, seconds in ((LOW, low, 194_308, 26.879), (HIGH, high, 992_893, 359.396)):
            yield f"  {name:<26}{one.owed:>12,}{one.clean_up_seconds:>10.2f}{rows:>14,}{seconds:>16.1f}"
        yield claim(
            "its clean-up finds fewer rows",
            paper="1/5.1",
            measured=f"1/{high.owed / low.owed:.1f}",
            holds=low.owed < high.owed,
        )
        yield claim(
            "in less time",
            paper="1/13.4",
            measured=f"1/{high.clean_up_seconds / low.clean_up_seconds:.1f}",
            holds=low.clean_up_seconds < high.clean_up_seconds,
        )
        yield complete(found)
        yield from saved(self.out, "figure_11", {"no limit": whole} | found)

    def figure_12(self) -> Iterator[str]:
        """The same join ratio everywhere: does the order matter?"""
        yield "state-adapt Figure 12: which groups are spilled; join ratio 3 in all partitions"
        whole = self.unlimited(self.streams(even(3)))
        yield self._told(whole)
        found = self._orders(whole)
        yield from results(found)
        low, high = found[LOW], found[HIGH]
        yield claim(
            "low productivity first gives a little more while it runs",
            paper="slightly outperforms",
            measured=f"{low.running / high.running:.3f} times",
            holds=high.running < low.running,
        )
        yield complete(found)
        yield from saved(self.out, "figure_12", {"no limit": whole} | found)

    def _orders(self, whole: Outcome) -> dict[str, Outcome]:
        return {
            LOW: self.limited(whole, LOW),
            HIGH: self.limited(whole, HIGH, productive_first=True),
        }
