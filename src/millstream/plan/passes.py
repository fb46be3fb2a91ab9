"""The passes of the planner, in their order; each is the file of its name."""

from __future__ import annotations

from collections.abc import Callable

from millstream.plan.bind import bind
from millstream.plan.check_plan import check_plan
from millstream.plan.choose_access import choose_access
from millstream.plan.cut_slices import cut_slices
from millstream.plan.gather_pools import gather_pools
from millstream.plan.group_by_signature import group_by_signature
from millstream.plan.merge_slices import merge_slices
from millstream.plan.nodes import Plan
from millstream.plan.plan_walks import plan_walks
from millstream.plan.push_selections import push_selections

PASSES: tuple[Callable[[Plan], Plan], ...] = (
    bind,
    group_by_signature,
    cut_slices,
    choose_access,
    push_selections,
    merge_slices,
    plan_walks,
    gather_pools,
    check_plan,
)
