"""A warning where more than a set share of a stream's rows are late or unreadable, with the likely reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.engine.files import Files
from millstream.engine.watermark import NEVER
from millstream.model.stream import Stream
from millstream.pipeline.late import REASON, TEXT
from millstream.pipeline.likely import Evidence, likely_reason
from millstream.pipeline.manifest import StagedFile

_SOME_FILES = 8


class LateWatch:
    """Counts the rows of a run by stream. `warnings` holds the one in force for each stream that has one."""

    def __init__(self, location: str) -> None:
        self._late = f"{location}/late/"
        self._rows: Counter[str] = Counter()
        self._unusable: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self.warnings: dict[str, str] = {}

    def saw(
        self,
        streams: Iterable[Stream],
        share: float,
        *,
        rows_in: Mapping[str, int],
        late: Mapping[str, int],
        outputs: Iterable[StagedFile],
        greatest: Mapping[str, int],
    ) -> list[str]:
        """Takes in a published batch; returns warnings that are new."""
        self._rows.update(rows_in)
        self._unusable.update(late)
        said = []
        for stream in streams:
            rows, unusable = self._rows[stream.name], self._unusable[stream.name]
            if not unusable or unusable <= share * rows:
                self.warnings.pop(stream.name, None)
                continue
            if stream.name not in self._reasons and late.get(stream.name):
                files = [one for one in outputs if one.folder == f"{self._late}{stream.name}"]
                self._reasons[stream.name] = _reason(stream, files, greatest.get(stream.name, NEVER))
            known = self._reasons.get(stream.name, "")
            told = f"{unusable / rows:.0%} of the rows of {stream.name} are late or unreadable"
            told += f" ({unusable:,} of {rows:,}): {known}"
            if stream.name not in self.warnings:
                said.append(told)
            self.warnings[stream.name] = told
        return said


def _reason(stream: Stream, files: Iterable[StagedFile], greatest: int) -> str:
    named = [(file.folder, file.finals[0].name) for file in files][:_SOME_FILES]
    try:
        evidence = evidence_in(stream, named, greatest)
    except (OSError, pa.ArrowInvalid):  # the files are the user's, who may have moved them
        return "see late/"
    return likely_reason(stream, evidence) if evidence.counts else "see late/"


def evidence_in(stream: Stream, files: Iterable[tuple[str, str]], greatest: int = NEVER) -> Evidence:
    """What published files of late rows tell."""
    counts: Counter[str] = Counter()
    texts: list[str] = []
    times: dict[str, tuple[int, int]] = {}
    own = {column.name.lower() for column in stream.columns}
    reason, text = (_renamed(name, own) for name in (REASON, TEXT))
    for folder, name in files:
        place = Files.at(folder)
        table = pq.read_table(place.path(name), filesystem=place.system, columns=[reason, text, stream.time])
        for one in pc.unique(table.column(reason)).to_pylist():
            some = table.filter(pc.equal(table.column(reason), one))
            counts[one] += some.num_rows
            known = some.column(stream.time).drop_null()
            if len(known):
                ends = pc.min_max(known.cast(pa.int64()))
                first, last = times.get(one, (ends["min"].as_py(), ends["max"].as_py()))
                times[one] = min(first, ends["min"].as_py()), max(last, ends["max"].as_py())
        texts += table.column(text).drop_null()[:3].to_pylist()
    return Evidence(counts=counts, texts=texts[:3], times=times, greatest=greatest)


def _renamed(name: str, own: set[str]) -> str:
    while name in own:
        name = f"_{name}"
    return name
