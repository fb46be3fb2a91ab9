"""Random bounds on the times of several sources that no set of times contradicts, written in every way there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

MIRROR = {"<": ">", "<=": ">="}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A condition as text with a place for each of the sources it reads."""

    text: str
    sources: tuple[int, ...]

    def over(self, names: Sequence[str]) -> str:
        return self.text.format(*(names[source] for source in self.sources))


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The time of `later` minus the time of `earlier` is at most so many seconds, or less than that."""

    later: int
    earlier: int
    seconds: int
    op: str = "<="

    def duck_sql(self, names: Sequence[str]) -> str:
        later, earlier = names[self.later], names[self.earlier]
        return f"epoch_us({later}.Ts) - epoch_us({earlier}.Ts) {self.op} {self.seconds} * 1000000"


Window = str | tuple[Part, ...]
"""The lengths of a WINDOW clause with places for the sources, or conditions."""


@st.composite
def bounds(draw: st.DrawFn, count: int) -> tuple[tuple[Limit, ...], Window]:
    """Bounds for every pair of sources, some of them only through others, and the text for them.

    There are times that meet all bounds, and bounds lie around these.
    """
    kind = draw(st.sampled_from(["window", "windows", "tree", "tree", "cycle", "more"]))
    if kind == "window":
        size = draw(st.sampled_from([5, 3, 8, 12, 2, 1]))
        return _windows([size] * count), f"{size} SECONDS"
    if kind == "windows":
        sizes = draw(st.lists(st.sampled_from([5, 3, 8, 12, 2, 1]), min_size=count, max_size=count))
        return _windows(sizes), ", ".join(f"{{{at}}} {size} SECONDS" for at, size in enumerate(sizes))
    times = [draw(st.sampled_from([0, 0, 0, 0, 1, -1, 2, -3])) for _ in range(count)]
    order = draw(st.permutations(range(count)))
    limits: list[Limit] = []
    parts: list[Part] = []
    if kind == "cycle":
        # Each may come only so long after the one before it, the first so long after the last: no pair is bounded by
        # itself unless there are but two.
        for later, earlier in zip(order, [*order[1:], order[0]], strict=True):
            limits.append(draw(_limit(later, earlier, times)))
            parts.append(draw(_written(limits[-1])))
        return tuple(limits), tuple(parts)
    for at in range(1, count):
        a, b = order[draw(st.integers(0, at - 1))], order[at]
        pair = draw(_limit(a, b, times)), draw(_limit(b, a, times))
        limits += pair
        parts += draw(_written_together(*pair))
    if kind == "more" and count > 2:
        a, b = draw(st.permutations(range(count)))[:2]
        limits.append(draw(_limit(a, b, times)))
        parts.append(draw(_written(limits[-1])))
    return tuple(limits), tuple(draw(st.permutations(parts)))


def _windows(sizes: Sequence[int]) -> tuple[Limit, ...]:
    """Of any two, the later one comes within the window of the earlier one."""
    places = range(len(sizes))
    return tuple(
        Limit(later=later, earlier=earlier, seconds=sizes[earlier], op="<")
        for later in places
        for earlier in places
        if later != earlier
    )


@st.composite
def _limit(draw: st.DrawFn, later: int, earlier: int, times: Sequence[int]) -> Limit:
    op = draw(st.sampled_from(["<=", "<"]))
    seconds = times[later] - times[earlier] + draw(st.sampled_from([3, 2, 5, 1, 0, 9]))
    return Limit(later=later, earlier=earlier, seconds=seconds + (op == "<"), op=op)


@st.composite
def _written(draw: st.DrawFn, limit: Limit) -> Part:
    op, length = limit.op, f"INTERVAL '{limit.seconds}' SECOND"
    forms = [
        f"{{0}}.Ts {op} {{1}}.Ts + {length}",
        f"{{1}}.Ts {MIRROR[op]} {{0}}.Ts - {length}",
        f"{{0}}.Ts - {{1}}.Ts {op} {length}",
        f"{{1}}.Ts + {length} {MIRROR[op]} {{0}}.Ts",
    ]
    if limit.seconds == 0:
        forms.append(f"{{0}}.Ts {op} {{1}}.Ts")
    return Part(text=draw(st.sampled_from(forms)), sources=(limit.later, limit.earlier))


@st.composite
def _written_together(draw: st.DrawFn, after: Limit, before: Limit) -> list[Part]:
    """Both limits of a pair: as one condition where there is a form for it, or as two."""
    sources = (after.later, after.earlier)
    first, last = f"INTERVAL '{before.seconds}' SECOND", f"INTERVAL '{after.seconds}' SECOND"
    forms = []
    if after.op == before.op == "<=":
        forms.append(f"{{0}}.Ts BETWEEN {{1}}.Ts - {first} AND {{1}}.Ts + {last}")
        if after.seconds == -before.seconds:
            forms.append(f"{{0}}.Ts = {{1}}.Ts + {last}")
    if after.op == before.op and after.seconds == before.seconds:
        forms.append(f"abs({{0}}.Ts - {{1}}.Ts) {after.op} {last}")
    if forms and draw(st.booleans()):
        return [Part(text=draw(st.sampled_from(forms)), sources=sources)]
    return [draw(_written(after)), draw(_written(before))]
