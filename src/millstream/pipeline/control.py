"""What runs now and how it changes: statements from the registry and the inbox become the plan of the next batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from millstream.compile import compile_script
from millstream.engine.trial import try_out
from millstream.errors import MillstreamError, ScriptError, ScriptErrors, Where
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline.claims import can_be_claimed, check_claim, claim
from millstream.pipeline.directory import Directory
from millstream.pipeline.places import located
from millstream.pipeline.registry import Entry, Registry, already_there, unknown_query
from millstream.pipeline.results import Target, target_of
from millstream.pipeline.sinks import (
    Callback,
    External,
    Sinks,
    external_of,
    folder_of,
    outbox,
    wrong_sinks,
)
from millstream.plan import Calibration, Plan

_FIXED = ("format", "path", "value", "subscribe", "subscribepattern", "assign", "topic")


@dataclass
class Control:
    """The statements in force, the plan they make, and where its results go."""

    directory: Directory
    functions: Mapping[str, Function]
    settings: Mapping[str, str]
    calibration: Calibration | None
    tell: Callable[[str], None]
    callbacks: Mapping[str, Callback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = Registry(self.directory.files.below("registry"))
        self.in_force = self.registry.in_force()
        self.base = self.in_force.base or str(Path.cwd())
        self._owner = self.in_force.owner or uuid.uuid4().hex
        self.plan: Plan | None = None
        self.sinks = Sinks({}, {})

    def compile(self, text: str) -> Plan:
        return compile_script(text, functions=self.functions, settings=self.settings, calibration=self.calibration)

    def tried(self, text: str) -> Plan:
        """The plan of statements that are not yet in force, if the engine can evaluate all they ask for."""
        plan = self.compile(text)
        try_out(plan, self.functions)
        return plan

    def check(self, script: str) -> Script:
        """What the script declares, if it can go on with what is here already."""
        declared = self.tried(script).script
        if self.in_force.script:
            before = self.compile(";\n".join(self.in_force.declarations)).script
            check_same_streams(before.streams, declared.streams, self.directory.place, self.base)
        wrong = wrong_sinks(declared, self.base)
        if wrong:
            raise wrong[0] if len(wrong) == 1 else ScriptErrors(wrong)
        self._check_claims(declared)
        return declared

    def begin(self, script: str, batch: int) -> None:
        """A script from its start, or an edited one: what differs from before takes effect with this batch."""
        if self.in_force.script != script:
            entry = Entry("script", batch, script, base=self.base, owner=self._owner)
            self._use(self.compile(self.in_force.after(entry).text()))
            self._record(entry)
        else:
            self._use(self.compile(self.in_force.text()))
        self._claim()
        for name, error in self.in_force.failed.items():
            self.tell(f"query {name} was stopped and stays so until it is added again or changed: {error}")

    def resume(self) -> bool:
        """What was in force with the last batch, for what is left to do of it; whether it can still be compiled."""
        try:
            self._use(self.compile(self.in_force.text()))
        except ScriptErrors as error:
            self.tell(f"rows of the last batch that a sink has not taken are left in outbox/: {error}")
            return False
        return True

    def change(self, batch: int) -> bool:
        """Takes what waits in the inbox into force with this batch; whether there was anything."""
        changed = False
        for name, asked in self.registry.waiting(self.tell):
            try:
                self._apply(Entry(asked.action, batch, asked.text, asked.query))
                changed = True
            except MillstreamError as error:
                self.tell(f"not applied: {error}")
                self.registry.refuse(name, str(error))
                if self.in_force.find(asked.query) is None:
                    self.forget(asked.query)
            self.registry.take_out(name)
        return changed

    def fail(self, query: str, error: str, batch: int) -> None:
        """Stops a query for good and remembers why."""
        self._apply(Entry("fail", batch, query=query, error=error))

    def register(self, query: str, callback: Callback) -> None:
        """A callback for a query that is about to be added. Batches go on meanwhile: they see all of a change."""
        self.callbacks = {**self.callbacks, query: callback}

    def forget(self, query: str) -> None:
        """The query's callback is not for one that may come under its name."""
        self.callbacks = {name: call for name, call in self.callbacks.items() if name != query}

    def since(self) -> dict[str, int]:
        return {name: query.since for name, query in self.in_force.queries.items()}

    def targets(self) -> dict[str, Target]:
        """Where slots write each query's rows."""
        results, shared = f"{self.directory.place}/results", self.planned().script.settings.results
        return {
            name: outbox(query, self.directory.place)
            if self.sinks.takes(name)
            else target_of(query, results, shared, self.base)
            for name, query in self.queries().items()
        }

    def queries(self) -> dict[str, Query]:
        return {query.name: query for query in self.planned().script.queries}

    def planned(self) -> Plan:
        if self.plan is None:
            raise RuntimeError("nothing is planned yet")
        return self.plan

    def _apply(self, entry: Entry) -> None:
        known = self.in_force.find(entry.query)
        if entry.action == "add":
            if known is not None:
                raise already_there(known)
        elif known is None:
            raise unknown_query(entry.query, self.in_force.queries)
        else:
            entry = replace(entry, query=known)
        compile_all = self.tried if entry.action == "add" else self.compile
        self._use(compile_all(self.in_force.after(entry).text()))
        self._claim()
        self._record(entry)
        if entry.action != "add":
            self.forget(entry.query)

    def _record(self, entry: Entry) -> None:
        self.registry.record(self.in_force.count + 1, entry)
        self.in_force = self.in_force.after(entry)

    def _use(self, plan: Plan) -> None:
        wrong = wrong_sinks(plan.script, self.base)
        if wrong:
            raise wrong[0]
        self._check_claims(plan.script)
        external: dict[str, External] = {}
        callbacks = self.callbacks
        for query in plan.script.queries:
            sink = external_of(query, self.base)
            if sink is not None and query.name not in callbacks:
                external[query.name] = sink
        names = {query.name for query in plan.script.queries}
        self.plan = plan
        self.sinks = Sinks(external, {name: call for name, call in callbacks.items() if name in names})

    def _check_claims(self, script: Script) -> None:
        for query in script.queries:
            folder = self._folder(query)
            if folder is not None:
                if self.directory.files.is_local and Path(folder).is_relative_to(self.directory.place):
                    raise ScriptError(
                        f"{query.name} writes to '{folder}', inside the pipeline's own directory",
                        "a path lies outside it; without one results are in results/",
                        "Leave the path out, or give another.",
                        query.where,
                    )
                check_claim(folder, self._owner, self.directory.place, query.where)

    def _claim(self) -> None:
        """Marks the folders outside the directory that results go to."""
        for query in self.planned().script.queries:
            folder = self._folder(query)
            if folder is not None and not can_be_claimed(folder):
                self.tell(f"query {query.name}: nothing keeps other pipelines from writing to {folder} as well")
            elif folder is not None:
                claim(folder, self._owner, self.directory.place)

    def _folder(self, query: Query) -> str | None:
        return None if query.name in self.callbacks else folder_of(query, self.base)


def check_same_streams(before: tuple[Stream, ...], after: tuple[Stream, ...], place: str, base: str) -> None:
    """Streams are what state and offsets are about: they stay as they were when a directory was begun."""
    known, given = ({stream.name: _what_stays(stream, base) for stream in streams} for streams in (before, after))
    for name in known | given:
        if known.get(name) != given.get(name):
            raise ScriptError(
                _difference(name, known.get(name), given.get(name)),
                "the columns, times and sources of a directory's streams stay as they are; queries may change",
                "Use a new directory for other streams.",
                Where(file=place),
            )


def _difference(name: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> str:
    if before is None or after is None:
        return f"stream {name} is {'new' if before is None else 'gone'}"
    what = next(part for part in before if before[part] != after[part])
    return f"stream {name} has changed: {what} was {before[what] or 'nothing'} and is {after[what] or 'nothing'}"


def _what_stays(stream: Stream, base: str) -> dict[str, str]:
    options = {"format": "parquet", **{name.lower(): value for name, value in located(stream.options, base)}}
    columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
    return {"columns": columns, "time": stream.time, **{name: options.get(name, "") for name in _FIXED}}
