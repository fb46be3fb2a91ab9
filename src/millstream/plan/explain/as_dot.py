"""A plan as a Graphviz graph: streams feed pools, pools feed the slices of chains, slices feed queries."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.plan.nodes import Chain, Plan, PoolName


def as_dot(plan: Plan) -> str:
    lines = ["digraph millstream {", "  rankdir=LR;", '  node [fontname="Helvetica"];']
    streams = sorted({stream.name for chain in plan.chains for stream in chain.streams})
    lines += [f"  {_quoted(f'stream {name}')} [label={_quoted(name)}, shape=cylinder];" for name in streams]
    pools = {pool.name: f"pool {number}" for number, pool in enumerate(plan.pools, 1)}
    for pool in plan.pools:
        lines.append(f"  {_quoted(pools[pool.name])} [label={_quoted(pool.title)}, shape=folder];")
        lines.append(f"  {_quoted(f'stream {pool.stream.name}')} -> {_quoted(pools[pool.name])};")
    for number, chain in enumerate(plan.chains, start=1):
        lines += _chain(number, chain, pools)
    return "\n".join([*lines, "}"])


def _chain(number: int, chain: Chain, pools: dict[PoolName, str]) -> Iterator[str]:
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(f'chain {number}: {_predicate(chain)}')};"
    for index, piece in enumerate(chain.slices):
        yield f"    {_quoted(f'slice {number}.{index}')} [label={_quoted(str(piece.interval))}, shape=box];"
    yield "  }"
    for name in dict.fromkeys(pool for _, pool in chain.read_at()):
        yield f"  {_quoted(pools[name])} -> {_quoted(f'slice {number}.0')} [lhead=cluster_{number}];"
    for member in chain.members:
        yield f"  {_quoted(f'query {member.name}')} [label={_quoted(member.name)}, shape=ellipse];"
    for index, piece in enumerate(chain.slices):
        for name in piece.queries:
            yield f"  {_quoted(f'slice {number}.{index}')} -> {_quoted(f'query {name}')};"


def _predicate(chain: Chain) -> str:
    return " and ".join(chain.key_texts()) or f"{', '.join(chain.names)}, no equality"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
