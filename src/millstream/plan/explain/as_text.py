"""A plan for people: the streams, each chain as a ruler of time differences, and what sharing saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millstream.errors import listing
from millstream.model import duration, sizes
from millstream.model.interval import cut_text, cut_texts
from millstream.model.settings import Settings
from millstream.model.stream import Stream
from millstream.plan.compare import compare
from millstream.plan.estimate import estimate
from millstream.plan.estimate_pools import estimate_pools, rows_per_chain
from millstream.plan.nodes import Chain, Lane, Member, Plan, Slice

_BAR = 20
_SHOWN = 20


def as_text(plan: Plan) -> str:
    lines = [*_streams(plan), *_memory(plan.script.settings)]
    if len(plan.chains) > 1 or any(not chain.is_pairwise for chain in plan.chains):
        lines += ["", *_pools(plan)]
    for number, chain in enumerate(plan.chains, start=1):
        lines += ["", *_chain(plan, number, chain)]
    if not plan.chains:
        lines += ["", "No queries."]
    return "\n".join(line.rstrip() for line in lines)


def _streams(plan: Plan) -> Iterator[str]:
    yield "Streams"
    width = max((len(stream.name) for stream in plan.script.streams), default=0)
    for stream in sorted(plan.script.streams, key=lambda stream: stream.name):
        columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
        yield f"  {stream.name:{width}}  {columns}"
        times = [f"time {stream.time}", f"delay {duration.text(stream.delay)}"]
        times += [f"idle {duration.text(stream.idle)}"] if stream.idle else []
        yield f"  {'':{width}}  {', '.join(times)}; {_hints(plan, stream)}"


def _memory(settings: Settings) -> list[str]:
    """What is done when state does not fit; nothing where it has no limit."""
    if not settings.memory:
        return []
    done = {
        "none": "nothing is done when it is short",
        "disk": "partition groups go to disk when it is short",
        "move": "partition groups move to executors that have more of it",
        "lazy_disk": "partition groups move to executors that have more of it, and go to disk when all are short",
        "active_disk": "partition groups move, and those that give little go to disk before it is short",
    }
    limit = f"{sizes.text(settings.memory)} in each executor, for state and the work on it"
    short = "rows are kept for a shorter time when it is short, and some results are lost"
    return ["", "Memory", f"  {limit}; {short if settings.memory_short == 'shrink' else done[settings.adaptation]}"]


def _hints(plan: Plan, stream: Stream) -> str:
    known = plan.statistics
    if known.rates.get(stream.name):
        rate = f"{_number(known.rate(stream))} rows/s (measured)"
    else:
        rate = f"{known.rate(stream):,g} rows/s{'' if stream.rate else ' (assumed)'}"
    keys = " (measured)" if known.knows_keys(stream) else "" if stream.keys else " (assumed)"
    return f"{rate}, {known.keys(stream):,} keys{keys}"


def _pools(plan: Plan) -> Iterator[str]:
    """The state of every stream by every key, who reads it, and what sharing it saves."""
    found = estimate_pools(plan)
    yield "Pools, each the state of one stream by one key"
    shown = found[:_SHOWN]
    width = max(len(one.pool.title) for one in shown)
    for one in shown:
        rows = f"{_number(one.rows):>12} rows"
        where = ", in every slot" if one.pool.spread.everywhere else ", in one slot" if one.pool.spread.chain else ""
        chains = f"chain{'s' if len(one.readers) > 1 else ''} {listing(map(str, one.readers), 8)}"
        yield f"  {one.pool.title:{width}}  {rows}, read by {chains}{where}"
    if len(found) > len(shown):
        yield f"  and {len(found) - len(shown)} more"
    mine, theirs = sum(one.rows for one in found), sum(rows_per_chain(plan, chain) for chain in plan.chains)
    yield f"  Together {_number(mine)} rows; with a state for each chain {_number(theirs)}: {_saved(mine, theirs)}."


def _chain(plan: Plan, number: int, chain: Chain) -> Iterator[str]:
    yield f"Chain {number}: {' and '.join(chain.key_texts()) or f'{listing(chain.names)}, no equality'}"
    counts = f"{_counted(len(chain.members), 'query', 'queries')} in {_counted(len(chain.slices), 'slice', 'slices')}"
    yield f"  {counts} of {_axis(chain)}{_why(plan, chain)}"
    yield ""
    yield from _ruler(chain)
    yield ""
    yield from _queries(chain)
    yield from _selections(chain)
    yield ""
    if chain.is_pairwise:
        yield from _state(plan, chain)
        yield ""
        yield from _comparison(plan, chain)
    else:
        yield from _walks(plan, chain)


def _axis(chain: Chain) -> str:
    if not chain.is_pairwise:
        return "d = the latest time of a result - the earliest"
    (left, right), (earlier, later) = chain.names, (stream.time for stream in chain.streams)
    return f"d = {right}.{later} - {left}.{earlier}"


def _walks(plan: Plan, chain: Chain) -> Iterator[str]:
    """What arriving tuples look up, in which order, and which equalities are compared because codes do not prove
    them.
    """
    yield "  Walks, in the order of the fewest partial results"
    titles = {pool.name: pool.title for pool in plan.pools}
    width = max(map(len, chain.names))
    for name, walk in zip(chain.names, chain.walks, strict=True):
        steps = []
        for step in walk:
            checked = " and ".join(f"{chain.sql(key.left)} = {chain.sql(key.right)}" for key in step.checked)
            at = chain.names[step.position]
            numbered = titles[step.pool].replace(chain.streams[step.position].name, at, 1)
            steps.append(numbered + (f" (comparing {checked})" if checked else ""))
        yield f"    {name:{width}}  looks up {', then '.join(steps)}"


def _why(plan: Plan, chain: Chain) -> str:
    """Why the chain is sliced like this, where there is more than one way."""
    settings = plan.script.settings
    if len({end for member in chain.members for end in (member.interval.lo, member.interval.hi)}) <= 2:
        return ""
    if settings.slicing == "memory":
        return ", one for each end of a window"
    if settings.budget:
        return ",\n  cut for the least mean slowdown: a budget may defer work"
    return ",\n  cut for the least CPU time: without a budget no work is deferred"


def _ruler(chain: Chain) -> Iterator[str]:
    """A vertical axis: a line for each cut, between them the slice and the queries it serves."""
    cuts = [cut_text(end) for piece in chain.slices for end in (piece.interval.lo, piece.interval.hi)]
    width = max(len(cut) for cut in cuts)
    for index, piece in enumerate(chain.slices):
        before = chain.slices[index - 1].interval.hi if index else None
        if before is not None and before != piece.interval.lo:
            yield f"  {cut_text(before):>{width}} ┴"
            yield f"  {'':{width}}    no query"
        joined = before == piece.interval.lo
        yield f"  {cut_text(piece.interval.lo):>{width}} {'┼' if joined else '┬'}"
        for line in _serves(chain, index, piece):
            yield f"  {'':{width}} │  {line}"
    yield f"  {cut_text(chain.slices[-1].interval.hi):>{width}} ┴"


def _serves(chain: Chain, index: int, piece: Slice) -> Iterator[str]:
    everyone = len(piece.queries) == len(chain.members)
    who = "every query" if everyone and len(chain.members) > 1 else listing(piece.queries, 8)
    label = f"slice {index + 1:<{len(str(len(chain.slices)))}}"
    yield f"{label}  {who}"
    if piece.cuts:
        inner = cut_texts(piece.cuts)
        yield f"{'':{len(label)}}  pairs routed at {listing(inner, 8)}"


def _queries(chain: Chain) -> Iterator[str]:
    yield "  Queries"
    shown = chain.members[:_SHOWN]
    width = max(len(member.name) for member in shown)
    spans = max(len(str(member.interval)) for member in shown)
    for member in shown:
        extra = [chain.sql(predicate) for predicate in member.residual]
        more = f"  and {' and '.join(extra)}" if extra else ""
        bounds = "" if member.has_plain_window else f"  {_bounds(chain, member)}"
        yield f"    {member.name:{width}}  {member.interval!s:{spans}}{bounds}{more}"
    if len(chain.members) > len(shown):
        yield f"    and {len(chain.members) - len(shown)} more"


def _bounds(chain: Chain, member: Member) -> str:
    """The bounds of every two streams, where the span of a result does not say all."""
    times = [f"{name}.{stream.time}" for name, stream in zip(chain.names, chain.streams, strict=True)]
    return ", ".join(f"{times[one.right]} - {times[one.left]} in {one.interval}" for one in member.bounds)


def _selections(chain: Chain) -> Iterator[str]:
    """How long which tuples are kept; the first line that matches a tuple applies."""
    if not any(chain.predicates(position) for position in range(len(chain.streams))):
        return
    yield "  Selections, each evaluated for all queries at once"
    for name, kept in zip(chain.names, chain.kept, strict=True):
        yield from _lanes(chain, name, kept)


def _lanes(chain: Chain, name: str, kept: Sequence[Lane]) -> Iterator[str]:
    for lane in kept[:_SHOWN]:
        passed = " AND ".join(sorted(chain.sql(predicate) for predicate in lane.condition))
        alone = len(kept) == 1
        who = f"where {passed}" if passed else "all" if alone else "all others"
        yield f"    {name}: {who}, {_how_long(lane)}"
    if len(kept) > _SHOWN:
        yield f"    {name}: and {len(kept) - _SHOWN} more"
    if kept and kept[-1].condition:
        yield f"    {name}: all others, not kept"


def _how_long(lane: Lane) -> str:
    """How long a lane is kept, not counting the lag of the watermark, which applies to all."""
    if lane.reach <= 1:
        return "kept until the watermark has passed it"
    return f"kept for {cut_text(lane.reach).lstrip('+')}"


def _state(plan: Plan, chain: Chain) -> Iterator[str]:
    found = estimate(plan, chain)
    left, right = chain.names
    width = max(len(left), len(right))
    yield "  State"
    for name, other, access, rows in (
        (left, right, chain.access.left, found.left_rows),
        (right, left, chain.access.right, found.right_rows),
    ):
        yield f"    {name:{width}}  {_number(rows):>12} rows, {access}, probed by {other}"


def _comparison(plan: Plan, chain: Chain) -> Iterator[str]:
    """State and cost of the four ways to run these queries as bars, and the saving against unshared queries."""
    found = compare(plan, chain)
    ways = [
        ("unshared", found.unshared),
        ("selection pull-up", found.pull_up),
        ("selection push-down", found.push_down),
        ("state-sliced, this plan", found.state_sliced),
    ]
    width = max(len(name) for name, _ in ways)
    yield f"  {'Estimate':{width + 2}}  {'state rows':>12}  {'':{_BAR}}  {plan.costs.unit:>14}"
    most_rows, most_cost = max(way.rows for _, way in ways), max(way.cost for _, way in ways)
    for name, way in ways:
        rows, cost = f"{_number(way.rows):>12}", f"{_number(way.cost):>14}"
        bars = _bar(way.rows, most_rows), _bar(way.cost, most_cost)
        yield f"    {name:{width}}  {rows}  {bars[0]:{_BAR}}  {cost}  {bars[1]}"
    saved_rows = _saved(found.state_sliced.rows, found.unshared.rows)
    saved_cost = _saved(found.state_sliced.cost, found.unshared.cost)
    yield f"  Against unshared: state {saved_rows}, cost {saved_cost}."


def _saved(mine: float, theirs: float) -> str:
    share = 100 * (1 - mine / theirs) if theirs else 0.0
    return f"{share:.0f} % saved" if share >= 0 else f"{-share:.0f} % added"


def _bar(value: float, most: float) -> str:
    return "█" * max(round(_BAR * value / most), 1 if value else 0) if most else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
