"""Two streams of wide rows whose state only grows, and of whose partition groups only some get rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.lab.workloads.generators import SECOND
from millstream.lab.workloads.join_ratio import keys_of_groups
from millstream.lab.workloads.spark_codes import spark_codes
from millstream.lab.workloads.stream_files import StreamFiles

STREAMS = ("L", "R")
_GROUPS = 1024


@dataclass(frozen=True, kw_only=True)
class IdleGroups:
    """`rows` of each stream in batches of one second of event time, with texts of `pad` characters.

    In each of the `phases` every so many-th partition group gets rows and the others get none; in one phase all do.
    """

    rows: int
    batches: int
    keys: int
    phases: int = 1
    pad: int = 200
    seed: int = 1

    def script(self, settings: str = "", window: str = "1 day") -> str:
        streams = "".join(
            f"CREATE STREAM {name} (Id BIGINT, K BIGINT, Pad STRING, Ts TIMESTAMP) WITH (time = 'Ts');\n"
            for name in STREAMS
        )
        return (
            f"SET groups = {_GROUPS};\n{settings}{streams}CREATE QUERY pairs AS SELECT L.Id AS L_Id, R.Id AS R_Id "
            f"FROM L, R WHERE L.K = R.K WINDOW {window};\n"
        )

    @cached_property
    def _keys(self) -> list[npt.NDArray[np.int64]]:
        """The keys of each phase."""
        found = keys_of_groups([max(1, self.keys // _GROUPS)] * _GROUPS, _GROUPS, spark_codes)
        return [np.concatenate(found[phase :: self.phases]) for phase in range(self.phases)]

    def stream(self, name: str) -> Iterator[pa.Table]:
        chance = np.random.default_rng([self.seed, STREAMS.index(name)])
        each = self.rows // self.batches
        for batch in range(self.batches):
            own = self._keys[batch * self.phases // self.batches]
            times = ((batch + np.arange(each) / each) * SECOND).astype(np.int64)
            letters = chance.integers(97, 123, each * self.pad, dtype=np.uint8)
            offsets = np.arange(each + 1, dtype=np.int32) * self.pad
            yield pa.table(
                {
                    "Id": np.arange(batch * each, (batch + 1) * each),
                    "K": chance.choice(own, each),
                    "Pad": pa.StringArray.from_buffers(each, pa.py_buffer(offsets), pa.py_buffer(letters)),
                    "Ts": pa.array(times).view(pa.timestamp("us", "UTC")),
                }
            )

    def write(self, folder: Path) -> StreamFiles:
        return StreamFiles.save(folder, self.script(), {name: list(self.stream(name)) for name in STREAMS})
