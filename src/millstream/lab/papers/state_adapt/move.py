"""Figures 14 to 17: what it costs to move groups between machines, and what it brings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from millstream.engine.memory import MemoryLimit
from millstream.lab.papers.state_adapt.run import Outcome, Setup, Tell, skewed
from millstream.lab.papers.state_adapt.shown import claim, complete, curves, results, saved
from millstream.lab.workloads.join_ratio import PARTITIONS, JoinRatio, even
from millstream.pipeline.adaptation.decision import Thresholds

DIFFERENCES = (0.5, 0.7, 0.8, 0.9)
BETWEEN = (15, 30, 45)
NONE = "no moves"
STANDS = "(shards of one process stand for machines: their CPU time is added up)"
_CHEAP, _BALANCED = 0.95, 0.8
_QUIET = 10


@dataclass(frozen=True, kw_only=True)
class Move:
    """An hour of the paper's clock. Costs are those of the fastest of `rounds` turns, which all runs take."""

    out: Path
    tuples: int = 100_000
    batches: int = 240
    rounds: int = 3
    tell: Tell = field(default=lambda _: None)

    def alternating(self) -> JoinRatio:
        """Half of the partitions get ten times as many tuples for five minutes, then the others for ten, and so on."""
        every = self.batches // 12
        return replace(
            self.steady(),
            turns=tuple(range(every, self.batches, 2 * every)),
            favoured=frozenset(range(PARTITIONS // 2)),
        )

    def steady(self) -> JoinRatio:
        return hour(even(2), self.tuples, self.batches)

    def figures_14_to_16(self) -> Iterator[str]:
        """When and how often groups move, under a load that keeps changing sides."""
        streams = self.alternating()
        yield "state-adapt Figures 14 to 16: two machines, whose partitions take turns to get ten times as many tuples"
        yield f"{self.tuples:,} tuples of each of three streams in 60 min, memory without limit, {self.rounds} turns"
        yield STANDS
        base = Setup(streams=streams, strategy="none", table=skewed((1, 1), PARTITIONS))
        setups = {NONE: base}
        for difference in DIFFERENCES:
            setups[_named(difference, 45)] = self._moving(base, difference, 45)
        for between in BETWEEN[:-1]:
            setups[_named(0.9, between)] = self._moving(base, 0.9, between)
        runs: dict[str, list[Outcome]] = {name: [] for name in setups}
        base.run("warming up", self.tell)
        for turn in range(self.rounds):
            for name, setup in setups.items():
                runs[name].append(setup.run(f"{name}, turn {turn + 1} of {self.rounds}", self.tell))
        found = {name: some[0] for name, some in runs.items()}
        yield from self._costs(found, {name: [one.cpu for one in some] for name, some in runs.items()})
        yield from self._balance(found)
        yield complete(found)
        yield from saved(self.out, "figure_14", {name: found[name] for name in (NONE, *map(_at_45, DIFFERENCES))})
        yield from saved(self.out, "figure_15", {name: found[name] for name in (NONE, *map(_at_90, BETWEEN))})
        yield from saved(self.out, "figure_16", {name: found[name] for name in (NONE, _at_90(15))}, memory=True)

    def _moving(self, base: Setup, difference: float, between: float) -> Setup:
        thresholds = Thresholds(difference=difference, between=between, least=1)
        return replace(base, strategy="move", thresholds=thresholds)

    def _costs(self, found: Mapping[str, Outcome], turns: Mapping[str, Sequence[float]]) -> Iterator[str]:
        # Other load on the machine makes a turn longer, never shorter.
        costs = {name: min(some) for name, some in turns.items()}
        header = f"  {'':<24}{'moves':>7}{'groups':>8}{'bytes copied':>14}"
        yield f"{header}{'CPU s':>8}{'slowest':>9}{'moving':>8}{'throughput to none':>20}"
        for name, one in found.items():
            moved, copied = (sum(getattr(sample, what) for sample in one.samples) for what in ("moved", "copied"))
            ratio = costs[NONE] / costs[name]
            moving = sum(sample.moving for sample in one.samples)
            cpu = f"{costs[name]:>8.2f}{max(turns[name]):>9.2f}{moving:>8.2f}"
            yield f"  {name:<24}{one.moves:>7}{moved:>8,}{copied:>14,}{cpu}{ratio:>20.2f}"
        others = [name for name in found if name != NONE]
        least = min(costs[NONE] / costs[name] for name in others)
        yield claim(
            f"throughput with moves at least {_CHEAP} of that without",
            paper="almost the same",
            measured=f"{least:.2f} at the least",
            holds=least >= _CHEAP,
        )
        counts = [found[name].moves for name in map(_at_45, DIFFERENCES)]
        yield claim(
            "the higher the threshold, the more often groups move",
            paper="2 times at 50 %, 24 at 90 %",
            measured=f"{counts[0]} at 50 %, {counts[-1]} at 90 %",
            holds=all(less <= more for less, more in pairwise(counts)) and counts[0] < counts[-1],
        )
        often = [found[name].moves for name in map(_at_90, BETWEEN)]
        yield claim(
            "the shorter the time between, the more often groups move",
            paper="31, 27, 24 times at 15, 30, 45 s",
            measured=", ".join(map(str, often)),
            holds=all(more >= less for more, less in pairwise(often)),
        )
        copied = sum(sample.copied for name in others for sample in found[name].samples)
        yield claim("bytes copied by moves", paper="all state that moves", measured=f"{copied:,}", holds=copied == 0)

    def _balance(self, found: Mapping[str, Outcome]) -> Iterator[str]:
        shown = {name: found[name] for name in (NONE, _at_90(15))}
        lines = {
            f"{name}, machine {machine + 1}": one.memory(machine) for name, one in shown.items() for machine in (0, 1)
        }
        yield from curves(found[NONE].minutes, lines, "memory, MB", ".1f")
        # In the first minutes there is little state, and what a batch adds or a merge saves is a large part of it.
        quiet = len(found[NONE].balance) * _QUIET // 60
        least = {name: min(one.balance[quiet:]) for name, one in found.items()}
        at_first = min(found[_at_90(15)].balance[1:quiet])
        for name in (NONE, _at_45(0.8), _at_90(15)):
            yield f"  {name}: the lesser has at least {least[name]:.0%} of the other after {_QUIET} minutes"
        yield claim(
            f"memory of the two machines within 20 % after {_QUIET} minutes",
            paper="balanced",
            measured=f"{least[_at_90(15)]:.0%} at the least, before that {at_first:.0%}",
            holds=least[_at_90(15)] >= _BALANCED,
        )

    def figure_17(self) -> Iterator[str]:
        """State that fits into the memory of three machines, but begins on one."""
        streams, table = self.steady(), skewed((4, 1, 1), PARTITIONS)
        yield "state-adapt Figure 17: three machines, one of which begins with two thirds of the partitions"
        whole = Setup(streams=streams, strategy="none", table=table).run("no limit", self.tell)
        # The machine that has most is full after 40 of 60 minutes.
        limit = MemoryLimit(nbytes=int(whole.memory(0)[self.batches * 2 // 3 - 1] * 1e6), inactive=7_200, room=0)
        yield (
            f"{self.tuples:,} tuples of each of three streams in 60 min, memory {limit.nbytes / 1e6:.1f} MB a machine; "
            f"moves at 80 %, every 45 s {STANDS}"
        )
        found = {
            "no moves, disk": Setup(streams=streams, strategy="disk", table=table, limit=limit),
            "moves": Setup(streams=streams, strategy="lazy_disk", table=table, limit=limit),
        }
        outcomes = {name: setup.run(name, self.tell) for name, setup in found.items()}
        yield from results({"no limit": whole} | outcomes)
        disk, moves = outcomes.values()
        yield claim(
            "with moves all state stays in memory",
            paper="yes",
            measured=f"{max(sum(s.disk) for s in moves.samples) / 1e6:.1f} MB on disk in {moves.moves} moves, "
            f"without {max(sum(s.disk) for s in disk.samples) / 1e6:.1f} MB",
            holds=moves.running == whole.running and not any(sum(s.disk) for s in moves.samples),
        )
        lost = next((minute for minute, s in zip(disk.minutes, disk.samples, strict=True) if sum(s.disk)), 0.0)
        yield claim(
            "without moves throughput drops once one machine is full",
            paper="after 40 minutes",
            measured=f"after {lost:.0f} minutes; at the end {disk.running / moves.running:.0%} of the results",
            holds=disk.running < moves.running,
        )
        yield complete(outcomes)
        yield from saved(self.out, "figure_17", outcomes)


def hour(ratios: tuple[int, ...], tuples: int, batches: int) -> JoinRatio:
    """An hour of the paper's clock, four tuple ranges."""
    return JoinRatio(
        ratios=ratios, tuples=tuples, tuple_range=round(tuples / 4), batches=batches, seconds=3_600 / batches
    )


def _named(difference: float, between: float) -> str:
    return f"{difference * 100:.0f} %, every {between:.0f} s"


def _at_45(difference: float) -> str:
    return _named(difference, 45)


def _at_90(between: float) -> str:
    return _named(0.9, between)
