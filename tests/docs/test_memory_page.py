"""What the page on memory says in numbers and in decisions."""

from __future__ import annotations

import re
from pathlib import Path

from clusters import Cluster
from millstream.model.sizes import text as size
from millstream.pipeline.adaptation import STRATEGIES
from millstream.pipeline.adaptation.decision import Thresholds
from millstream.pipeline.adaptation.loads import ClusterLoad

PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "docs/memory.md").read_text(encoding="utf-8"))
MB = 1_000_000


def test_every_strategy_has_its_line() -> None:
    assert re.findall(r"\| `'(\w+)'` \| (yes|no)", PAGE) == [
        (name, "yes" if make(Thresholds()).spills else "no") for name, make in STRATEGIES.items()
    ]


def test_thresholds_are_the_defaults() -> None:
    told = Thresholds()
    assert f"less than {told.difference} of what the one with the most has" in PAGE
    assert f"no groups have moved in the last {told.between:.0f} s" in PAGE
    assert f"less than {size(told.least)}." in PAGE
    assert f"more than {told.rates:.0f} times the results" in PAGE
    assert (
        f"at most {told.share:.0%} of its memory at once and at most every {told.between:.0f} s".replace("%", " %")
        in PAGE
    )


def test_decisions_are_told_as_shown() -> None:
    uneven = Cluster([0] * 5 + [1], ["a", "b"], [20 * MB, 30 * MB, 70 * MB, 0, 0, 20 * MB], [9, 9, 1, 1, 1, 1])
    assert STRATEGIES["move"](Thresholds()).decide(uneven.load(), 0).reason in PAGE
    even = Cluster([0] * 10 + [1] * 10, ["a", "b"], [10 * MB] * 20, [40] * 10 + [10] * 10, limit=70 * MB)
    load = ClusterLoad(slots=even.load().slots, estimated=400 * MB)
    assert STRATEGIES["active_disk"](Thresholds()).decide(load, 0).reason in PAGE
