"""Streams share columns by type, and are numbered whatever the order they are declared in."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from millstream.compile import compile_script
from millstream.pipeline.layout import Layout

MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


def layout(*declarations: str) -> Layout:
    script = "".join(f"CREATE STREAM {one} WITH (time = 'Ts');" for one in declarations)
    return Layout.of(compile_script(script).script.streams)


def test_a_hundred_streams_are_as_wide_as_the_widest() -> None:
    found = layout(*(f"S{n} (k INT, other{n} INT, v DOUBLE, Ts TIMESTAMP)" for n in range(100)))
    assert [kind for _, kind in found.columns] == ["INT", "INT", "DOUBLE", "TIMESTAMP"]
    assert set(found.places) == {("c0", "c1", "c2", "c3")}


def test_columns_of_one_type_are_shared_in_their_order() -> None:
    found = layout("B (Ts TIMESTAMP, x STRING, y STRING)", "A (k INT, x STRING, Ts TIMESTAMP, t TIMESTAMP)")
    assert [stream.name for stream in found.streams] == ["A", "B"]
    assert found.columns == (
        ("c0", "INT"),
        ("c1", "STRING"),
        ("c2", "TIMESTAMP"),
        ("c3", "TIMESTAMP"),
        ("c4", "STRING"),
    )
    assert found.places == (("c0", "c1", "c2", "c3"), ("c2", "c1", "c4"))
    assert found.place(1, "y") == "c4"


def test_rows_come_out_with_their_own_columns_and_types() -> None:
    found = layout("B (Ts TIMESTAMP, x STRING)", "A (k INT, x STRING, Ts TIMESTAMP)")
    batch = pa.RecordBatch.from_pydict(
        {
            "c0": pa.array([None], pa.int32()),
            "c1": pa.array(["text"]),
            "c2": pa.array([MOMENT], pa.timestamp("us", "Etc/UTC")),
        }
    )
    rows = found.rows(batch, 1)
    assert rows.to_pylist() == [{"Ts": MOMENT, "x": "text"}]
    assert rows.schema.field("Ts").type == pa.timestamp("us", "UTC")
