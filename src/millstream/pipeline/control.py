"""What runs now and how it changes: statements from the registry and the inbox become the plan of the next batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millstream.compile import compile_script
from millstream.errors import MillstreamError, ScriptError, Where
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import Entry, Registry
from millstream.pipeline.results import Target, target_of
from millstream.pipeline.sinks import Callback, External, Sinks, external_of, outbox
from millstream.plan import Calibration, Plan

_FIXED = ("format", "path", "value", "subscribe", "topic")


@dataclass
class Control:
    """The statements in force, the plan they make, and where its results go."""

    directory: Directory
    functions: Mapping[str, Function]
    settings: Mapping[str, str]
    calibration: Calibration | None
    tell: Callable[[str], None]
    callbacks: dict[str, Callback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = Registry(self.directory.files.below("registry"))
        self.in_force = self.registry.in_force()
        self.plan: Plan | None = None
        self.sinks = Sinks({}, {})

    def compile(self, text: str) -> Plan:
        return compile_script(text, functions=self.functions, settings=self.settings, calibration=self.calibration)

    def check(self, script: str) -> Script:
        """What the script declares, if it can go on with what is here already."""
        declared = self.compile(script).script
        if self.in_force.script:
            before = self.compile(";\n".join(self.in_force.declarations)).script
            check_same_streams(before.streams, declared.streams, self.directory.place)
        return declared

    def begin(self, script: str, batch: int) -> None:
        """A script from its start, or an edited one: what differs from before takes effect with this batch."""
        if self.in_force.script != script:
            follow = self.in_force.after(Entry("script", batch, script))
            self._use(self.compile(follow.text()))
            self._record(Entry("script", batch, script))
        else:
            self._use(self.compile(self.in_force.text()))
        for name, error in self.in_force.failed.items():
            self.tell(f"query {name} was stopped and stays so until it is added again or changed: {error}")

    def change(self, batch: int) -> bool:
        """Takes what waits in the inbox into force with this batch; whether there was anything."""
        changed = False
        for name, asked in self.registry.waiting():
            try:
                self._apply(Entry(asked.action, batch, asked.text, asked.query))
                changed = True
            except MillstreamError as error:
                self.tell(f"not applied: {error}")
                self.registry.refuse(name, str(error))
            self.registry.take_out(name)
        return changed

    def fail(self, query: str, error: str, batch: int) -> None:
        """Stops a query for good and remembers why."""
        self._apply(Entry("fail", batch, query=query, error=error))

    def since(self) -> dict[str, int]:
        return {name: query.since for name, query in self.in_force.queries.items()}

    def targets(self) -> dict[str, Target]:
        """Where slots write each query's rows."""
        results, shared = f"{self.directory.place}/results", self.planned().script.settings.results
        return {
            name: outbox(query, self.directory.place) if self.sinks.takes(name) else target_of(query, results, shared)
            for name, query in self.queries().items()
        }

    def queries(self) -> dict[str, Query]:
        return {query.name: query for query in self.planned().script.queries}

    def planned(self) -> Plan:
        if self.plan is None:
            raise RuntimeError("nothing is planned yet")
        return self.plan

    def _apply(self, entry: Entry) -> None:
        if entry.action != "add" and entry.query not in self.in_force.queries:
            known = ", ".join(self.in_force.queries) or "none"
            raise ScriptError(f'no query "{entry.query}"', f"the queries are {known}", "Use one of these.")
        if entry.action == "add" and entry.query in self.in_force.queries:
            raise ScriptError(f'query "{entry.query}" is there already', "names differ", "Drop it first, or rename.")
        self._use(self.compile(self.in_force.after(entry).text()))
        self._record(entry)

    def _record(self, entry: Entry) -> None:
        self.registry.record(self.in_force.count + 1, entry)
        self.in_force = self.in_force.after(entry)

    def _use(self, plan: Plan) -> None:
        external: dict[str, External] = {}
        for query in plan.script.queries:
            sink = external_of(query)
            if sink is not None and query.name not in self.callbacks:
                external[query.name] = sink
        names = {query.name for query in plan.script.queries}
        self.plan = plan
        self.sinks = Sinks(external, {name: call for name, call in self.callbacks.items() if name in names})


def check_same_streams(before: tuple[Stream, ...], after: tuple[Stream, ...], place: str) -> None:
    """Streams are what state and offsets are about: they stay as they were when a directory was begun."""
    known, given = ({stream.name: _what_stays(stream) for stream in streams} for streams in (before, after))
    for name in known | given:
        if known.get(name) != given.get(name):
            found = (
                f"stream {name} is new"
                if name not in known
                else f"stream {name} is gone"
                if name not in given
                else f"stream {name} has changed"
            )
            raise ScriptError(
                found,
                "the columns, times and sources of a directory's streams stay as they are; queries may change",
                "Use a new directory for other streams.",
                Where(file=place),
            )


def _what_stays(stream: Stream) -> tuple[object, ...]:
    options = {name.lower(): value for name, value in stream.options}
    return stream.columns, stream.time, tuple((name, options.get(name)) for name in _FIXED)
