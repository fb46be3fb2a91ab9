"""Codes of keys as Spark computes them."""

from __future__ import annotations

import numpy as np

from millstream.lab.workloads.spark_codes import spark_codes


def test_codes_are_those_of_spark() -> None:
    """What `SELECT xxhash64(k)` gives for BIGINT keys."""
    keys = np.array([1, 0, -5, 2**62 + 7, 123456789])
    assert spark_codes(keys).view(np.int64).tolist() == [
        -7001672635703045582,
        -5252525462095825812,
        -5259934538394028452,
        33012597766123635,
        3415128141240069951,
    ]
