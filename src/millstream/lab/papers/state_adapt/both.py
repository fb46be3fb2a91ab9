"""Figures 20 and 21: lazy disk and active disk, where the memory of all machines together is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from millstream.engine.memory import MemoryLimit
from millstream.lab.papers.state_adapt.move import STANDS, hour
from millstream.lab.papers.state_adapt.run import Outcome, Setup, Tell, skewed
from millstream.lab.papers.state_adapt.shown import claim, complete, results, saved
from millstream.lab.workloads.join_ratio import PARTITIONS, JoinRatio, even

_FASTER = 2.5
NONE, LAZY, ACTIVE = "no moves, disk", "lazy disk", "active disk"
_STRATEGIES = {NONE: "disk", LAZY: "lazy_disk", ACTIVE: "active_disk"}


@dataclass(frozen=True, kw_only=True)
class Both:
    """An hour of the paper's clock on three machines."""

    out: Path
    tuples: int = 100_000
    batches: int = 240
    tell: Tell = field(default=lambda _: None)

    def _streams(self, ratios: tuple[int, ...]) -> JoinRatio:
        return hour(ratios, self.tuples, self.batches)

    def _whole(self, streams: JoinRatio, table: tuple[int, ...]) -> int:
        """The bytes that all state takes in the end."""
        whole = Setup(streams=streams, strategy="none", table=table).run("no limit", self.tell)
        return sum(whole.samples[-1].memory)

    def _run(
        self, streams: JoinRatio, table: tuple[int, ...], each: int, whole: int, names: tuple[str, ...]
    ) -> dict[str, Outcome]:
        limit = MemoryLimit(nbytes=each, inactive=7_200, room=0)
        return {
            name: Setup(streams=streams, strategy=_STRATEGIES[name], table=table, limit=limit, estimated=whole).run(
                name, self.tell
            )
            for name in names
        }

    def figure_20(self) -> Iterator[str]:
        """Two thirds of the partitions begin on one of three machines."""
        streams, table = self._streams(even(2)), skewed((4, 1, 1), PARTITIONS)
        whole = self._whole(streams, table)
        yield "state-adapt Figure 20: three machines, one of which begins with two thirds of the partitions"
        yield f"{self.tuples:,} tuples of each of three streams in 60 min {STANDS}"
        yield f"memory for three quarters of the state: {whole / 4e6:.1f} MB a machine"
        found = self._run(streams, table, whole // 4, whole, (NONE, LAZY))
        yield from results(found)
        none, lazy = found.values()
        yield claim(
            "lazy disk gives more results while it runs",
            paper="a much higher throughput",
            measured=f"{lazy.running / none.running:.2f} times",
            holds=lazy.running > none.running,
        )
        yield complete(found)
        yield from saved(self.out, "figure_20", found)
        yield ""
        yield f"section 6.1, clean-up: memory for a third of the state, {whole / 9e6:.1f} MB a machine"
        short = self._run(streams, table, whole // 9, whole, (NONE, LAZY))
        yield from results(short)
        yield f"  {'clean-up':<18}{'rows':>12}{'longest s':>11}   seconds of each machine"
        for name, one in short.items():
            each = ", ".join(f"{cleaned.seconds:.2f}" for cleaned in one.cleaned)
            yield f"  {name:<18}{one.owed:>12,}{one.clean_up_seconds:>11.2f}   {each}"
        none, lazy = short.values()
        faster = none.clean_up_seconds / lazy.clean_up_seconds
        yield claim(
            f"clean-up at least {_FASTER} times faster with lazy disk, by the machine that takes longest",
            paper="over 1,600 s against under 400 s",
            measured=f"{faster:.1f} times",
            holds=faster >= _FASTER,
        )
        yield "  (machines clean up side by side; here they do so in turn, and the longest of the three counts)"
        yield complete(short)
        yield from saved(self.out, "section_6_1", short)

    def figure_21(self) -> Iterator[str]:
        """Productive groups on one machine, others on two."""
        table = skewed((1, 1, 1), PARTITIONS)
        streams = self._streams(tuple(4 if machine == 0 else 1 for machine in table))
        whole = self._whole(streams, table)
        yield "state-adapt Figure 21: three machines, join ratio 4 on the first and 1 on the others"
        yield f"{self.tuples:,} tuples of each of three streams in 60 min {STANDS}"
        yield f"memory for half of the state: {whole / 6e6:.1f} MB a machine"
        found = self._run(streams, table, whole // 6, whole, (LAZY, ACTIVE))
        yield from results(found)
        lazy, active = found.values()
        yield claim(
            "active disk overtakes lazy disk in the long run",
            paper="yes, after a drop",
            measured=f"{active.running / lazy.running:.2f} times the results at the end",
            holds=active.running > lazy.running,
        )
        yield complete(found)
        yield from saved(self.out, "figure_21", found)
