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


@pytest.mark.parametrize(
    ("rate_a", "rate_b", "window", "access"),
    [
        (0.1, 10_000, 60, Access("index", "scan")),
        (0.1, 100, 60, Access("index", "scan")),
        (10, 10_000, 60, Access("index", "index")),
        (10, 10_000, 1, Access("index", "scan")),
        (0.1, 0.1, 60, Access("scan", "scan")),
    ],
)
def test_by_calibrated_costs_what_few_tuples_probe_is_scanned(
    planned: Callable[..., Plan], rate_a: float, rate_b: float, window: int, access: Access
) -> None:
    """How fast the scanned stream is does not matter: a tuple is inserted once, and met by what comes in its window."""
    join = f"SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {window} SECONDS"
    plan = planned(join, rate_a=rate_a, rate_b=rate_b, keys=10_000)
    assert plan.chains[0].access == access
    assert [pool.is_indexed for pool in plan.pools] == [access.left == "index", access.right == "index"]


def test_few_keys_make_a_scan_dearer(planned: Callable[..., Plan]) -> None:
    """Each match that a scan finds costs more than one that an index finds."""
    found = [planned(JOIN, rate_a=0.3, rate_b=10_000, keys=keys).chains[0].access.right for keys in (10, 10_000)]
    assert found == ["index", "scan"]


def test_what_one_chain_has_indexed_another_does_not_scan(planned: Callable[..., Plan]) -> None:
    few = {"rate_a": 0.1, "rate_b": 0.1, "keys": 10_000}
    alone = planned(JOIN, **few)
    assert alone.chains[0].access == Access("scan", "scan")
    three = "SELECT A.k FROM A, B, A C WHERE A.k = B.k AND B.k = C.k WINDOW 60 SECONDS"
    shared = planned(JOIN, three, **few)
    assert [chain.access for chain in shared.chains if chain.is_pairwise] == [Access("index", "index")]
    assert all(pool.is_indexed for pool in shared.pools)
