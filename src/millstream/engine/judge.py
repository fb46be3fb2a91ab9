"""Which arriving rows can be used. The others are late rows: each is reported once, with the reason, for all its
chains.

Whether a row is late follows from its time and from what is known before the batch, so every slot that sees a row
decides alike, and one of them reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.engine.arrow import Bools, microseconds
from millstream.engine.watermark import FAR
from millstream.model.stream import Stream

UNREAD = "\x01unread"
"""Hidden column: the text of a row that did not parse, null where it did. No declared column has a control character in
its name.
"""


@dataclass(frozen=True, slots=True)
class Late:
    """Rows that are too late for some chains, are too far in the future, have no time or do not parse. `text` is what
    did not parse.
    """

    stream: str
    reason: str
    rows: pa.RecordBatch
    chains: tuple[str, ...] = ()
    text: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The valid times of a stream's rows: up to the horizon, and for each chain from its watermark on."""

    horizon: int = FAR
    watermarks: Sequence[tuple[str, int]] = ()


def judged(stream: Stream, rows: pa.RecordBatch, limits: Limits) -> tuple[pa.RecordBatch, list[Late]]:
    """The rows that parse and have a valid time, and all late rows.

    Rows that are older than some chain's watermark are in both.
    """
    late: list[Late] = []
    unread: pa.Array | None = None
    if UNREAD in rows.schema.names:
        unread, rows = rows.column(UNREAD), rows.drop_columns([UNREAD])
    names = [column.name for column in stream.columns]

    def set_aside(reason: str, mask: Bools, chains: tuple[str, ...] = (), text: pa.Array | None = None) -> None:
        chosen = pa.array(mask)
        some = None if text is None else text.filter(chosen)
        late.append(Late(stream.name, reason, rows.select(names).filter(chosen), chains, some))

    unusable = np.zeros(rows.num_rows, dtype=np.bool_)
    if unread is not None and unread.null_count < len(unread):
        unusable = _mask(pc.is_valid(unread))
        set_aside("does not parse", unusable, text=unread)
    if rows.column(stream.time).null_count:
        timeless = _mask(pc.is_null(rows.column(stream.time))) & ~unusable
        if timeless.any():
            set_aside("null time", timeless)
        unusable |= timeless
    if unusable.any():
        rows = rows.filter(pa.array(~unusable))
    times = microseconds(rows.column(stream.time))
    if len(times) and times.max() > limits.horizon:
        ahead = times > limits.horizon
        set_aside("in the future", ahead)
        rows, times = rows.filter(pa.array(~ahead)), times[~ahead]
    if len(times):
        least = int(times.min())
        below = -FAR
        for watermark, chains in _levels(limits.watermarks):
            if least < watermark:
                behind = (times >= below) & (times < watermark)
                if behind.any():
                    set_aside("older than the watermark", behind, chains)
            below = watermark
    return rows, late


def by_lateness(
    stream: Stream, rows: pa.RecordBatch, watermarks: Mapping[str, int]
) -> list[tuple[pa.RecordBatch, frozenset[str]]]:
    """Rows in parts by the chains for which they are late, without those that are late for all."""
    times = microseconds(rows.column(stream.time))
    levels = sorted(set(watermarks.values()))
    if not len(times) or times.min() >= levels[-1]:
        return [(rows, frozenset())]
    found = []
    for level, above in zip(levels, [*levels[1:], FAR + 1], strict=True):
        chosen = (times >= level) & (times < above)
        if chosen.any():
            hidden_from = frozenset(chain for chain, own in watermarks.items() if own > level)
            found.append((rows.filter(pa.array(chosen)), hidden_from))
    return found


def _levels(watermarks: Iterable[tuple[str, int]]) -> list[tuple[int, tuple[str, ...]]]:
    """Every watermark, from the lowest, with the chains a row just below it is late for."""
    known = sorted(watermarks, key=lambda item: item[1])
    levels = sorted({watermark for _, watermark in known})
    return [(level, tuple(sorted({chain for chain, own in known if own >= level}))) for level in levels]


def _mask(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
