"""Figures 6 and 7: a query plan on one machine and on several, before anything is adapted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from millstream.lab.papers.state_adapt.run import Outcome, Setup, Tell, skewed
from millstream.lab.papers.state_adapt.shown import claim, complete, results, saved
from millstream.lab.workloads.join_ratio import JoinRatio, even

MACHINES = (1, 2, 3, 4, 5)
_FULL_AT = 25 / 40
"""After which part of the run one machine is full, as in Figure 7: that sets the memory of each."""


@dataclass(frozen=True, kw_only=True)
class Partitioned:
    """The paper's 40 minutes. Machines have equally many partitions and no limit; when one is full is read off."""

    out: Path
    tuples: int = 100_000
    batches: int = 40
    machines: Sequence[int] = MACHINES
    tell: Tell = field(default=lambda _: None)

    def _found(self, tuples: int, ratio: int) -> dict[str, Outcome]:
        streams = JoinRatio(
            ratios=even(ratio),
            tuples=tuples,
            tuple_range=round(tuples * 0.4),
            batches=self.batches,
            seconds=2_400 / self.batches,
        )
        return {
            f"M{count}": Setup(streams=streams, strategy="none", table=skewed([1] * count, len(streams.ratios))).run(
                f"{count} machines", self.tell
            )
            for count in self.machines
        }

    def figure_6(self) -> Iterator[str]:
        """A small plan: more machines change nothing."""
        found = self._found(self.tuples // 2, 1)
        yield f"state-adapt Figure 6: a small query plan on several machines; {self.tuples // 2:,} tuples a stream"
        yield from results(found)
        yield claim(
            "results so far are the same on all machines at every minute",
            paper="negligible effects on the overall throughput",
            measured=" and ".join(f"{one.running:,}" for one in found.values()),
            holds=all(one.so_far == next(iter(found.values())).so_far for one in found.values()),
        )
        cpu = ", ".join(f"{name} {one.cpu:.2f}" for name, one in found.items())
        yield f"  CPU seconds of all machines together: {cpu}"
        yield complete(found)
        yield from saved(self.out, "figure_6", found)

    def figure_7(self) -> Iterator[str]:
        """A large plan: one machine is full before the end, some together are not."""
        found = self._found(self.tuples, 2)
        one = next(iter(found.values()))
        memory = one.memory()[round(_FULL_AT * len(one.samples)) - 1]
        yield (
            f"state-adapt Figure 7: a large query plan on several machines; {self.tuples:,} tuples a stream, "
            f"{memory:.1f} MB of memory in each"
        )
        yield from results(found)
        full = [_full_at(one, memory) for one in found.values()]
        told = ", ".join(
            f"{name} {f'full after {at:.0f} min' if at else 'runs to the end'}"
            for name, at in zip(found, full, strict=True)
        )
        yield claim(
            "the more machines, the longer it runs",
            paper="one 25 min, two about 35 min, four and five to the end",
            measured=told,
            holds=_is_longer(full) and full[0] is not None and full[-1] is None,
        )
        whole = [one.running for one, at in zip(found.values(), full, strict=True) if at is None]
        yield claim(
            "once there are enough, more give no more results",
            paper="M4 and M5 almost the same",
            measured=" and ".join(f"{rows:,}" for rows in whole),
            holds=len(set(whole)) == 1,
        )
        yield complete(found)
        yield from saved(self.out, "figure_7", found, memory=True)


def _full_at(one: Outcome, memory: float) -> float | None:
    """The minute after which a machine has more state than its memory holds; None where none ever has."""
    for number, minute in enumerate(one.minutes):
        if max(one.memory(machine)[number] for machine in range(len(one.samples[0].memory))) > memory:
            return minute
    return None


def _is_longer(full: Sequence[float | None]) -> bool:
    """Whether no number of machines is full before a smaller one."""
    times = [float("inf") if at is None else at for at in full]
    return times == sorted(times)
