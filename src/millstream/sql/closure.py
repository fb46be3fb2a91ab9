"""What follows from upper limits on time differences, and what they lack or contradict.

A limit on (i, j) is the most that T_i - T_j may be. Limits add up along a path of sources, so what follows for a pair
is its shortest path, and limits contradict where a cycle of them adds up to less than zero.
"""

from __future__ import annotations

from collections.abc import Mapping

Limits = Mapping[tuple[int, int], int]


def closed(limits: Limits, count: int) -> dict[tuple[int, int], int] | None:
    """The least limit that follows for every pair that has one; None where the limits contradict."""
    least = dict(limits)
    for k in range(count):
        for i in [i for i in range(count) if (i, k) in least]:
            for j in [j for j in range(count) if (k, j) in least]:
                through = least[i, k] + least[k, j]
                if i != j:
                    least[i, j] = min(through, least.get((i, j), through))
                elif through < 0:
                    return None
    return least


def contradiction(limits: Limits, count: int) -> list[int]:
    """The sources of a smallest cycle whose limits add up to less than zero; none where there is no such cycle.

    Each source has a limit with the next one, and the last with the first.
    """
    walks = {pair: (most, [pair[0]]) for pair, most in limits.items()}
    for _ in range(count - 1):
        longer: dict[tuple[int, int], tuple[int, list[int]]] = {}
        for (i, k), (so_far, path) in walks.items():
            for j in [j for j in range(count) if (k, j) in limits]:
                most = so_far + limits[k, j]
                if i == j and most < 0:
                    return [*path, k]
                if (i, j) not in longer or most < longer[i, j][0]:
                    longer[i, j] = most, [*path, k]
        walks = longer
    return []


def missing(limits: Limits, count: int, length: int) -> dict[tuple[int, int], int]:
    """Limits to add, in multiples of a length, so that one follows for every pair and no two contradict.

    None of them is needless. Sources that a limit relates in one direction come first, in the order of the limits;
    where nothing relates two sources both directions are missing.
    """
    found: dict[tuple[int, int], int] = {}
    while True:
        least = closed({**limits, **found}, count) or {}
        half = next(((i, j) for j, i in limits if (i, j) not in least), None)
        apart = next(((i, j) for i in range(count) for j in range(i) if (i, j) not in least), None)
        if half is not None:
            at_least = -least[half[1], half[0]]
            found[half] = max(1, at_least // length + 1) * length
        elif apart is not None:
            found |= {apart: length, (apart[1], apart[0]): 0}
        else:
            break
    for pair in list(found):
        rest = {other: most for other, most in found.items() if other != pair}
        if pair in (closed({**limits, **rest}, count) or {}):
            found = rest
    return found
