"""How the memory of an executor is divided among its slots."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.pipeline.adaptation.loads import SlotLoad

_LEAST = 2
"""A slot has at least this part of an even share: room for new rows, whatever the others need."""


def shares(limit: int, loads: Sequence[SlotLoad]) -> dict[int, int]:
    """The bytes of each slot, by what it needs for all its state; together they are the limit.

    Small slots get what they need and large ones divide the rest evenly. What nobody needs is divided evenly too.
    """
    least = limit // (_LEAST * max(1, len(loads)))
    found: dict[int, int] = {}
    left = limit
    for place, load in enumerate(sorted(loads, key=lambda load: (load.need, load.slot))):
        # Those that come later need at least as much, so an even share of the rest is enough for them or too little.
        found[load.slot] = min(max(load.need, least), left // (len(loads) - place))
        left -= found[load.slot]
    for place, load in enumerate(loads):
        more = left // (len(loads) - place)
        found[load.slot] += more
        left -= more
    return found
