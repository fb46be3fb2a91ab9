"""Delivery: committed rows go from the outbox to external sinks, batch after batch.

A sink that fails is tried again with growing pauses, for as long as its `retry` says. Meanwhile its rows wait in the
outbox, and everything else goes on. Queries do not wait for each other's sinks, except where they share a folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

from millstream.engine.files import Files
from millstream.errors import QueryFailed, ScriptError
from millstream.model import duration
from millstream.pipeline.causes import first_cause
from millstream.pipeline.manifest import PublishedFile, StagedFile
from millstream.pipeline.sinks import External, Sinks
from millstream.pipeline.writing import Rows, call, write

_FIRST, _LONGEST = 0.5, 30.0
_NAME = re.compile(r"\w+-[0-9a-f]{8}-(\d{8,})-\d{3,}-\d+\.parquet")
_DELIVERED = re.compile(r"\.delivered-(\d+)")


@dataclass(slots=True)
class _Trouble:
    """A sink that has failed: since when, how long the next pause is, and when it is tried again."""

    since: float
    pause: float = _FIRST
    next_try: float = 0.0


@dataclass(slots=True)
class _Box:
    """Where the rows of one query, or of the queries that share a folder, go; the files that wait, by batch."""

    sink: External
    queries: tuple[str, ...]
    waiting: dict[int, list[PublishedFile]] = field(default_factory=dict)


class Delivery:
    """The rows that sinks have not taken yet."""

    def __init__(self, spark: SparkSession, location: str, tell: Callable[[str], None]) -> None:
        self._spark, self._location, self._tell = spark, location, tell
        self._waiting: dict[str, dict[int, list[PublishedFile]]] = {}
        self._troubles: dict[tuple[str, ...], _Trouble] = {}

    def take_up(self, sinks: Sinks, since: Mapping[str, int]) -> None:
        """Finds the rows that an earlier run has left for the sinks of these queries."""
        for query in (*sinks.external, *sinks.callbacks):
            self._waiting[query] = {}
            files = Files.at(f"{self._location}/outbox/{query}")
            names = files.names()
            found = {name: int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
            for name, batch in found.items():
                if batch >= since.get(query, 0):
                    self._waiting[query].setdefault(batch, []).append(PublishedFile(query, files.root, name))
        delivered = {
            (query, int(match[1]))
            for query in self._waiting
            for name in Files.at(f"{self._location}/outbox/{query}").names()
            if (match := _DELIVERED.fullmatch(name))
        }
        for box in self._boxes(sinks):
            for batch in {batch for query, batch in delivered if query in box.queries}:
                self._empty(box, batch)

    def add(self, batch: int, outputs: Iterable[StagedFile], sinks: Sinks) -> None:
        """The files of a batch that was just committed."""
        for final in (final for output in outputs for final in output.finals):
            if sinks.takes(final.query) and Files.at(final.folder).has(final.name):
                batches = self._waiting.setdefault(final.query, {})
                known = batches.setdefault(batch, [])
                if final not in known:
                    known.append(final)

    def run(self, sinks: Sinks, app: str) -> None:
        """Delivers what waits and is due. Raises QueryFailed for queries whose sinks are not tried again."""
        for query in [query for query in self._waiting if not sinks.takes(query)]:
            if self._waiting.pop(query):
                self._tell(f"rows for the sink of {query} are left in outbox/{query}: it has none now")
        for box in self._boxes(sinks):
            trouble = self._troubles.get(box.queries)
            if trouble is None or time.monotonic() >= trouble.next_try:
                self._deliver(box, app)
        for query, callback in sinks.callbacks.items():
            for batch in sorted(self._waiting.get(query, {})):
                alone = _Box(External("callback", ()), (query,), {batch: self._waiting[query][batch]})
                call(query, callback, batch, alone.waiting[batch])
                self._empty(alone, batch)

    def pause(self) -> float | None:
        """Seconds until a sink is tried again; None where no rows wait for one."""
        tries = [trouble.next_try for trouble in self._troubles.values()]
        return max(0.0, min(tries) - time.monotonic()) if tries else None

    def _boxes(self, sinks: Sinks) -> list[_Box]:
        found: dict[object, _Box] = {}
        for query, sink in sinks.external.items():
            batches = self._waiting.get(query)
            if batches:
                # A folder is written as a whole for each batch; other sinks take the rows of a query alone.
                box = found.setdefault(sink if sink.is_files else query, _Box(sink, ()))
                box.queries = (*box.queries, query)
                for batch, finals in batches.items():
                    box.waiting.setdefault(batch, []).extend(finals)
        return list(found.values())

    def _deliver(self, box: _Box, app: str) -> None:
        for batch in sorted(box.waiting):
            try:
                self._write(box, batch, app, box.queries)
            except (PySparkException, Py4JError, ScriptError) as error:
                self._fail(box, batch, app, error)
                return
            self._empty(box, batch)
        if self._troubles.pop(box.queries, None):
            self._tell(f"the {box.sink.format} sink of {' and '.join(box.queries)} takes rows again")

    def _write(self, box: _Box, batch: int, app: str, queries: Iterable[str]) -> None:
        rows = {}
        for query in queries:
            finals = sorted((one for one in box.waiting[batch] if one.query == query), key=lambda one: one.name)
            if finals:
                rows[query] = Rows(spark=self._spark, query=query, batch=batch, finals=tuple(finals))
        if rows:
            write(box.sink, batch, rows, f"{app}/{'+'.join(rows)}")

    def _fail(self, box: _Box, batch: int, app: str, error: Exception) -> None:
        """Plans the next try, or stops the queries that are to blame."""
        cause = f"{box.sink.format} sink: {first_cause(str(error))}"
        now = time.monotonic()
        trouble = self._troubles.setdefault(box.queries, _Trouble(now))
        over = box.sink.retry is not None and now - trouble.since >= box.sink.retry / duration.SECOND
        if over or isinstance(error, AnalysisException | IllegalArgumentException):
            del self._troubles[box.queries]
            raise QueryFailed(self._to_blame(box, batch, app), cause) from error
        if trouble.next_try == 0.0:
            length = "as long as it takes" if box.sink.retry is None else f"for {duration.text(box.sink.retry)}"
            names = " and ".join(box.queries)
            self._tell(f"query {names}: rows wait in the outbox, and the sink is tried again {length}: {cause}")
        trouble.next_try = now + trouble.pause
        trouble.pause = min(2 * trouble.pause, _LONGEST)

    def _to_blame(self, box: _Box, batch: int, app: str) -> list[str]:
        """Of queries that share a folder, those with which it cannot be written; all where it cannot be at all."""
        if len(box.queries) == 1:
            return list(box.queries)
        good: list[str] = []
        for query in box.queries:
            try:
                self._write(box, batch, app, [*good, query])
                good.append(query)
            except (PySparkException, Py4JError):
                continue
        return [query for query in box.queries if query not in good] or list(box.queries)

    def _empty(self, box: _Box, batch: int) -> None:
        """Deletes files that were taken. A mark says so first: a part of them must not be taken for the whole."""
        finals = [one for query in box.queries for one in self._waiting.get(query, {}).pop(batch, [])]
        folder, mark = Files.at(f"{self._location}/outbox/{box.queries[0]}"), f".delivered-{batch}"
        if len(finals) > 1:
            folder.write(mark, b"", sync=box.sink.is_files)
        for final in finals:
            Files.at(final.folder).delete(final.name)
        for query in box.queries:
            Files.at(f"{self._location}/outbox/{query}").delete(mark)
