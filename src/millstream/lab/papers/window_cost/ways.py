"""Simple ways to share out a service rate or a memory, each in proportion to something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Amounts = dict[str, float]


def in_proportion(total: float, to: Mapping[str, float], most: Mapping[str, float]) -> Amounts:
    """Shares out a total in proportion; none gets more than its most, and what it leaves goes to the others."""
    found, open_ = dict.fromkeys(to, 0.0), dict(to)
    while open_:
        left = total - sum(found[name] for name in found if name not in open_)
        whole = sum(open_.values())
        full = [name for name, part in open_.items() if left * part / whole >= most[name]]
        found |= {name: left * part / whole for name, part in open_.items()} | {name: most[name] for name in full}
        if not full:
            break
        open_ = {name: part for name, part in open_.items() if name not in full}
    return found


def one_after_another(total: float, order: Sequence[str], most: Mapping[str, float]) -> Amounts:
    """Each as much as it can take, in this order."""
    found = {}
    for name in order:
        found[name] = min(most[name], total)
        total -= found[name]
    return found


def inverse(amounts: Mapping[str, float]) -> Amounts:
    return {name: 1 / amount for name, amount in amounts.items()}


def rates_by(service: float, rates: Mapping[str, float], windows: Mapping[str, float]) -> dict[str, Amounts]:
    """The five ways of Figure 8: rows per second of each stream."""
    even = dict.fromkeys(rates, 1.0)
    parts = {
        "like rates": rates,
        "inverse to rates": inverse(rates),
        "like windows": windows,
        "inverse to windows": inverse(windows),
        "equal": even,
    }
    return {name: in_proportion(service, part, rates) for name, part in parts.items()}


def memory_by(memory: float, rates: Mapping[str, float], most: Mapping[str, float]) -> dict[str, Amounts]:
    """The five ways of Figure 9: rows of memory for each stream."""
    slow = sorted(rates, key=lambda name: rates[name])
    return {
        "slowest first": one_after_another(memory, slow, most),
        "fastest first": one_after_another(memory, slow[::-1], most),
        "like rates": in_proportion(memory, rates, most),
        "inverse to rates": in_proportion(memory, inverse(rates), most),
        "equal": in_proportion(memory, dict.fromkeys(rates, 1.0), most),
    }
