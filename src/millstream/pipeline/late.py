"""Late rows as they are written to `late/`: with the reason, the chains they are late for, and what did not parse."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from millstream.engine.judge import Late

REASON, CHAIN, TEXT = "_reason", "_chain", "_text"
"""The columns added to late rows; where a stream has a column of that name, another _ is prefixed."""


def told(late: Late) -> pa.RecordBatch:
    """The rows with the reason, the chains and the text that did not parse as columns."""
    rows, count = late.rows, late.rows.num_rows
    columns = {
        REASON: pa.array([late.reason] * count, pa.string()),
        CHAIN: pa.array(["; ".join(late.chains) or None] * count, pa.string()),
        TEXT: pa.nulls(count, pa.string()) if late.text is None else late.text,
    }
    taken = {name.lower() for name in rows.schema.names}
    for name, values in columns.items():
        while name in taken:
            name = f"_{name}"
        rows = rows.append_column(name, values)
    return rows


def counts(late: Iterable[Late]) -> dict[str, int]:
    """The number of late rows of each stream."""
    counted: dict[str, int] = {}
    for part in late:
        counted[part.stream] = counted.get(part.stream, 0) + part.rows.num_rows
    return counted
