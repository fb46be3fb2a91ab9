"""Spark's xxhash64 of a BIGINT, vectorised: which partition group a key will be in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.engine.keys import Codes

_SEED = np.uint64(42)
_1 = np.uint64(0x9E3779B185EBCA87)
_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_3 = np.uint64(0x165667B19E3779F9)
_4 = np.uint64(0x85EBCA77C2B2AE63)
_5 = np.uint64(0x27D4EB2F165667C5)


def spark_codes(keys: npt.NDArray[np.int64]) -> Codes:
    """The codes by which the pipeline routes these keys."""
    with np.errstate(over="ignore"):
        found: Codes = _turned(keys.view(np.uint64) * _2, 31) * _1
        found ^= _SEED + _5 + np.uint64(8)
        found = _turned(found, 27) * _1 + _4
        found ^= found >> np.uint64(33)
        found *= _2
        found ^= found >> np.uint64(29)
        found *= _3
        found ^= found >> np.uint64(32)
    return found


def _turned(values: Codes, bits: int) -> Codes:
    turned: Codes = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return turned
