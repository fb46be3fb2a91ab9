"""Streams of which only some partition groups get rows at a time."""

from __future__ import annotations

import numpy as np
import pytest

from millstream.engine.groups import Grouping
from millstream.lab.workloads.idle_groups import IdleGroups
from millstream.lab.workloads.spark_codes import spark_codes


@pytest.mark.parametrize("phases", [1, 4])
def test_every_phase_has_groups_of_its_own(phases: int) -> None:
    streams = IdleGroups(rows=4_000, batches=8, keys=2_048, phases=phases, pad=5)
    seen: dict[int, set[int]] = {}
    for number, batch in enumerate(streams.stream("L")):
        groups = Grouping().of(spark_codes(np.asarray(batch.column("K"))))
        seen.setdefault(number * phases // 8, set()).update((groups % phases).tolist())
        assert batch.num_rows == 500
        assert {len(text) for text in batch.column("Pad").to_pylist()} == {5}
    assert seen == {phase: {phase} for phase in range(phases)}
