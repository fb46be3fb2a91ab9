"""op-sched, Table 2, to the digit."""

from __future__ import annotations

import pytest

from millstream.lab.papers.op_sched.tables import PRINTED, table_2


@pytest.mark.parametrize("policy", sorted(PRINTED))
def test_table_2(policy: str) -> None:
    assert [str(row) for row in table_2(policy)] == [str(row) for row in PRINTED[policy]]
