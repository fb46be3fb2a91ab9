"""Who is served first when work piles up. One small file per policy; `SET policy` and `SET fairness` name them.

A policy has state, so every backlog or run creates its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from millstream.engine.policies.auto import Auto
from millstream.engine.policies.chain import Chain
from millstream.engine.policies.dynamic_priority import DynamicPriority
from millstream.engine.policies.fifo import Fifo
from millstream.engine.policies.greedy import Greedy
from millstream.engine.policies.largest_window_only import LargestWindowOnly
from millstream.engine.policies.path_capacity import PathCapacity
from millstream.engine.policies.round_robin import RoundRobin
from millstream.engine.policies.segment import SegmentStrategy
from millstream.engine.policies.serve_the_oldest import ServeTheOldest
from millstream.engine.policies.simplified_segment import SimplifiedSegment
from millstream.engine.policies.smallest_window_first import SmallestWindowFirst
from millstream.engine.policies.threshold import Threshold
from millstream.engine.policy import Policy

POLICIES: Mapping[str, Callable[[float], Policy]] = {
    "greedy": lambda _: Greedy(),
    "lwo": lambda _: LargestWindowOnly(),
    "swf": lambda _: SmallestWindowFirst(),
    "fifo": lambda _: Fifo(),
    "round_robin": lambda _: RoundRobin(),
    "chain": lambda _: Chain(),
    "path_capacity": lambda _: PathCapacity(),
    "segment": lambda _: SegmentStrategy(),
    "simplified_segment": lambda _: SimplifiedSegment(),
    "threshold": Threshold,
    "auto": Auto,
}
"""Policies by name, each created with a memory limit for waiting rows."""

FAIRNESS: Mapping[str, Callable[[Policy], Policy]] = {
    "none": lambda policy: policy,
    "oldest": ServeTheOldest,
    "dynamic": DynamicPriority,
}


def make_policy(name: str, fairness: str = "none", memory: float = 256e6) -> Policy:
    return FAIRNESS[fairness](POLICIES[name](memory))
