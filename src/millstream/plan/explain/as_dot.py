"""A plan as a Graphviz graph: streams feed the slices of a chain, slices feed queries."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.plan.nodes import Chain, Plan


def as_dot(plan: Plan) -> str:
    lines = ["digraph millstream {", "  rankdir=LR;", '  node [fontname="Helvetica"];']
    streams = sorted({stream.name for chain in plan.chains for stream in chain.streams})
    lines += [f"  {_quoted(f'stream {name}')} [label={_quoted(name)}, shape=cylinder];" for name in streams]
    for number, chain in enumerate(plan.chains, start=1):
        lines += _chain(number, chain)
    return "\n".join([*lines, "}"])


def _chain(number: int, chain: Chain) -> Iterator[str]:
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(f'chain {number}: ' + ' and '.join(chain.key_texts()))};"
    for index, piece in enumerate(chain.slices):
        yield f"    {_quoted(f'slice {number}.{index}')} [label={_quoted(str(piece.interval))}, shape=box];"
    yield "  }"
    for stream in dict.fromkeys(chain.streams):
        yield f"  {_quoted(f'stream {stream.name}')} -> {_quoted(f'slice {number}.0')} [lhead=cluster_{number}];"
    for member in chain.members:
        yield f"  {_quoted(f'query {member.name}')} [label={_quoted(member.name)}, shape=ellipse];"
    for index, piece in enumerate(chain.slices):
        for name in piece.queries:
            yield f"  {_quoted(f'slice {number}.{index}')} -> {_quoted(f'query {name}')};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
