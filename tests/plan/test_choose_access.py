"""One access path per direction."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.plan import Plan, paper
from millstream.plan.nodes import Access

JOIN = "SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 60 SECONDS"


@pytest.mark.parametrize(
    ("rate_a", "rate_b", "keys", "access"),
    [
        (10, 10, 10, Access("index", "index")),
        (10, 66, 10, Access("index", "index")),
        (10, 68, 10, Access("index", "scan")),
        (68, 10, 10, Access("scan", "index")),
        (10, 68, 20, Access("index", "index")),
        (10, 10, 2, Access("scan", "scan")),
    ],
)
def test_a_fast_stream_is_scanned_by_a_slow_one(
    planned: Callable[..., Plan], rate_a: float, rate_b: float, keys: int, access: Access
) -> None:
    assert planned(JOIN, rate_a=rate_a, rate_b=rate_b, keys=keys, costs=paper(1)).chains[0].access == access


def test_without_an_equality_everything_in_the_window_is_scanned(planned: Callable[..., Plan]) -> None:
    (chain,) = planned("SELECT A.k FROM A, B WHERE A.v < B.v WINDOW 60 SECONDS", keys=20_000).chains
    assert chain.access == Access("scan", "scan")
    assert chain.keys == ()


def test_many_keys_are_indexed_with_calibrated_costs(planned: Callable[..., Plan]) -> None:
    assert planned(JOIN, keys=20_000).chains[0].access == Access("index", "index")
