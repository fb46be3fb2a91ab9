"""What runs and how it changes: statements from the registry and the inbox become the plan of the next batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from millstream.compile import compile_script
from millstream.engine.trial import try_out
from millstream.errors import MillstreamError, ScriptError, ScriptErrors, Where, listing
from millstream.model.functions import Function
from millstream.model.query import Query
from millstream.model.script import Script
from millstream.model.stream import Stream
from millstream.pipeline import manifest as manifests
from millstream.pipeline.changes import Changes, check_slots
from millstream.pipeline.claims import can_be_claimed, check_claims, claim
from millstream.pipeline.directory import Directory
from millstream.pipeline.locations import located
from millstream.pipeline.registry import Entry, InForce, Registry
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

_FIXED = ("format", "path", "value", "epoch", "subscribe", "subscribepattern", "assign", "topic")


@dataclass(kw_only=True)
class Control:
    """The statements in force, the plan they make, and where its results go.

    `callbacks` take the rows of queries in force, `coming` those of queries that wait in the inbox, by their tickets.
    """

    directory: Directory
    functions: Mapping[str, Function] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    calibration: Calibration | None = None
    tell: Callable[[str], None] = lambda _: None
    callbacks: Mapping[str, Callback] = field(default_factory=dict)
    coming: dict[str, Callback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = Registry(self.directory.files.below("registry"))
        self.in_force = self.registry.in_force()
        self.changes = Changes(
            directory=self.directory, registry=self.registry, compiled=self.tried, current=lambda: self.in_force
        )
        self.base = self.in_force.base or str(Path.cwd())
        self._owner = self.in_force.owner or uuid.uuid4().hex
        self.begins_anew = False
        self.plan: Plan | None = None
        self.sinks = Sinks({}, {})

    def compile(self, text: str) -> Plan:
        return compile_script(text, functions=self.functions, settings=self.settings, calibration=self.calibration)

    def tried(self, text: str) -> Plan:
        """The plan of statements that are not yet in force, if the engine can evaluate all their expressions."""
        plan = self.compile(text)
        try_out(plan, self.functions)
        return plan

    def check(self, script: str) -> Script:
        """What the script declares, if it fits what the directory already holds."""
        declared = self.tried(script).script
        if self.in_force.script:
            before = self.compile(";\n".join(self.in_force.declarations)).script
            try:
                check_same_streams(before.streams, declared.streams, self.directory.location, self.base)
            except ScriptError:
                if manifests.batches(self.directory.files.below("manifest")):
                    raise
                # No batch was ever committed: a start that failed must not refuse the corrected script.
                self.begins_anew, self.base, self.in_force = True, str(Path.cwd()), InForce()
        self._check_ends(declared)
        self._check_callbacks(script)
        return declared

    def _check_callbacks(self, script: str) -> None:
        """A callback lives in the process that gave it: without it the rows of its query would go nowhere."""
        goes_on = self.changes.expected().after(self._script_entry(script, batch=0)).queries
        lost = [
            name
            for name, one in self.in_force.queries.items()
            if one.callback and name not in self.callbacks and name in goes_on and goes_on[name].since == one.since
        ]
        if lost:
            raise ScriptError(
                f"no callback for {listing(lost)}",
                "a query that was added with sink=... is started with it again, because rows may wait for it",
                f"Call query({lost[0]!r}, ..., sink=...) before the start, or drop it:"
                f" millstream query drop {self.directory.location} {lost[0]}",
                Where(file=self.directory.location),
            )

    def _script_entry(self, script: str, batch: int) -> Entry:
        return Entry(
            "script",
            batch=batch,
            text=script,
            base=self.base,
            owner=self._owner,
            callbacks=tuple(self.callbacks),
            slots=self.compile(script).script.settings.slots,
        )

    def begin(self, script: str, batch: int) -> None:
        """Begins or resumes with a script: what differs from before takes effect with this batch."""
        entry = self._script_entry(script, batch)
        before, after = self.in_force, self.in_force.after(entry)
        if before.script and before.declared_slots != entry.slots:
            self._refuse_slots(entry.slots)
        if (before.script, before.queries, before.declared_slots) != (script, after.queries, entry.slots):
            self._use(self._planned(after.text()), self.callbacks)
            self._record(entry)
        else:
            self._use(self._planned(self.in_force.text()), self.callbacks)
        self._claim(self.planned().script, self.callbacks)
        for name, error in self.in_force.failed.items():
            self.tell(f"query {name} was stopped and stays so until it is added again or changed: {error}")

    def forget(self) -> None:
        """Deletes what a start noted that failed before its first batch: its statements, and Spark's checkpoint."""
        self.registry.clear()
        files = self.directory.files
        if "spark" in files.folders():
            files.system.delete_dir_contents(files.path("spark"))
        self.tell("the last start ended before its first batch; the pipeline begins anew")

    def _refuse_slots(self, declared: int) -> None:
        """The settings have another number of slots than before, which is newer than what waits in the inbox."""
        for ticket, asked in self.registry.waiting(self.tell):
            if asked.action == "slots":
                why = f"{asked.text} slots were asked for before this start, whose settings have {declared or 'none'}"
                self.tell(f"not applied: {why}")
                self.registry.refuse(ticket, why)
                self.registry.take_out(ticket)

    def resume(self) -> bool:
        """Restores what was in force with the last batch, to finish publishing it; whether it still compiles."""
        try:
            self._use(self._planned(self.in_force.text()), self.callbacks)
        except MillstreamError as error:
            self.tell(f"rows of the last batch that a sink has not taken are left in outbox/: {error}")
            return False
        return True

    def change(self, batch: int) -> bool:
        """Applies the changes in the inbox with this batch; returns whether there were any."""
        changed = False
        for ticket, asked in self.registry.waiting(self.tell):
            try:
                self._apply(replace(asked, batch=batch), self.coming.get(ticket))
                changed = True
            except MillstreamError as error:
                self.tell(f"not applied: {error}")
                self.registry.refuse(ticket, str(error))
            self.coming.pop(ticket, None)
            self.registry.take_out(ticket)
        return changed

    def ask_for(self, name: str, statement: str, callback: Callback | None) -> None:
        """Requests a query from the next batch on. Raises its errors."""

        def register(ticket: str) -> None:
            if callback is not None:
                self.coming[ticket] = callback

        # A batch may apply the change as soon as it is requested: the callback must be known by then.
        self.changes.add_one(name, statement, to_files=callback is None, before=register)

    def fail(self, query: str, error: str, batch: int) -> None:
        """Stops a query for good and records why."""
        self._apply(Entry("fail", batch=batch, query=query, error=error))

    @property
    def owner(self) -> str:
        """The pipeline's own id: that of the directory as it was begun, wherever it lies."""
        return self._owner

    def since(self) -> dict[str, int]:
        return {name: query.since for name, query in self.in_force.queries.items()}

    def targets(self) -> dict[str, Target]:
        """Where slots write each query's rows."""
        results, shared = f"{self.directory.location}/results", self.planned().script.settings.results
        return {
            name: outbox(query, self.directory.location)
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

    def slots(self) -> int:
        """How many slots are asked for; 0 where nobody asks."""
        return self.in_force.slots or self.planned().script.settings.slots

    def _apply(self, entry: Entry, callback: Callback | None = None) -> None:
        if entry.action == "slots":
            check_slots(int(entry.text), self.planned().script.settings.groups, self.directory.location)
            self._record(entry)
            return
        if entry.action == "add":
            if entry.callbacks and callback is None:
                raise ScriptError(
                    f'the callback of "{entry.query}" is gone',
                    "a callback lives in the process that gave it, which ended before a batch took the query in",
                    "Add the query again, with its sink.",
                )
            elsewhere = () if callback is None else (entry.query,)
            plan = self.changes.check(self.in_force, entry.text, only=entry.query, elsewhere=elsewhere).plan
        else:
            entry = replace(entry, query=self.changes.known(self.in_force, entry.query))
            plan = self.compile(self.in_force.after(entry).text())
        # A callback belongs to one query: a later query of the same name does not get it.
        callbacks = {name: call for name, call in self.callbacks.items() if name != entry.query}
        if callback is not None:
            callbacks[entry.query] = callback
        self._claim(plan.script, callbacks)
        self._use(plan, callbacks)
        self._record(entry)

    def _record(self, entry: Entry) -> None:
        self.registry.record(self.in_force.count + 1, entry)
        self.in_force = self.in_force.after(entry)

    def _planned(self, text: str) -> Plan:
        plan = self.compile(text)
        self._check_ends(plan.script)
        return plan

    def _use(self, plan: Plan, callbacks: Mapping[str, Callback]) -> None:
        external: dict[str, External] = {}
        for query in plan.script.queries:
            sink = external_of(query, self.base)
            if sink is not None and query.name not in callbacks:
                external[query.name] = sink
        names = {query.name for query in plan.script.queries}
        self.plan, self.callbacks = plan, callbacks
        self.sinks = Sinks(external, {name: call for name, call in callbacks.items() if name in names})

    def _check_ends(self, script: Script) -> None:
        wrong = wrong_sinks(script, self.base)
        if wrong:
            raise wrong[0] if len(wrong) == 1 else ScriptErrors(wrong)
        to_files = [query for query in script.queries if query.name not in self.callbacks]
        check_claims(to_files, base=self.base, owner=self._owner, directory=self.directory)

    def _claim(self, script: Script, callbacks: Collection[str]) -> None:
        """Marks the folders outside the directory that results go to."""
        for query in script.queries:
            folder = None if query.name in callbacks else folder_of(query, self.base)
            if folder is not None and not can_be_claimed(folder):
                self.tell(f"query {query.name}: nothing keeps other pipelines from writing to {folder} as well")
            elif folder is not None:
                claim(folder, self._owner, self.directory.location)


def check_same_streams(before: tuple[Stream, ...], after: tuple[Stream, ...], place: str, base: str) -> None:
    """Refuses changed streams: state and offsets depend on them, so they are fixed for a directory's life."""
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
