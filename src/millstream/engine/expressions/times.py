"""Parts of times, also those outside Arrow's calendar, which counts years in 16 bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Ints
from millstream.model import moments

_NEAR = moments.days_of(30_000, 1, 1)
_WRAP = 1 << 16


def year(value: pa.Array) -> pa.Array:
    """The year of dates or timestamps."""
    found = pc.year(value)
    days = np.asarray(pc.fill_null(pc.cast(value, pa.date32(), safe=False).view(pa.int32()), 0)).astype(np.int64)
    if not len(days) or np.abs(days).max() < _NEAR:
        return found
    about = days / 365.2425 + 1970
    lost = np.rint((about - np.asarray(pc.fill_null(found, 0))) / _WRAP).astype(np.int64)
    return pc.add(found, pa.array(lost * _WRAP))


def clock(value: pa.Array) -> Ints:
    """Microseconds since midnight of timestamps; nulls count as midnight."""
    micros: Ints = np.asarray(pc.fill_null(value.view(pa.int64()), 0))
    return micros % moments.DAY
