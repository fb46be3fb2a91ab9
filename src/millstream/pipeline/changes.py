"""How the queries of a directory change: the one way for Python, the command and files in the inbox.

A change is requested by a ticket in the inbox, checked against what will be in force once all earlier tickets are
applied. The running pipeline applies it with the next batch and checks it again, against what is in force then. Nothing
here needs Spark, so that the command starts fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from millstream import sql
from millstream.compile import compile_script
from millstream.engine.trial import try_out
from millstream.errors import ScriptError, ScriptErrors, Where, did_you_mean, listing
from millstream.model.functions import Function
from millstream.model.script import Script
from millstream.model.settings import MOST_GROUPS
from millstream.pipeline import manifest as manifests
from millstream.pipeline.claims import check_claims
from millstream.pipeline.directory import Directory
from millstream.pipeline.registry import InForce, Registry
from millstream.pipeline.sinks import wrong_sinks
from millstream.plan import Plan

Compile = Callable[[str], Plan]
_POLL_SECONDS = 0.05
ONE_AT_A_TIME = "a change adds one query, by the name it has in its CREATE QUERY"


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested change: its ticket in the inbox, its kind, and the query it is about."""

    ticket: str
    action: str
    query: str


@dataclass(frozen=True, slots=True)
class Added:
    """The queries of a text, each with its statement, and the plan of everything in force together with them."""

    statements: tuple[sql.Statement, ...]
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes what runs in a directory, through its inbox, which the next batch empties.

    `compiled` makes and tries the plan of a script, `current` says what is in force.
    """

    directory: Directory
    registry: Registry
    compiled: Compile
    current: Callable[[], InForce]

    @classmethod
    def of(cls, place: str, functions: Mapping[str, Function] | None = None) -> Changes:
        """The changes of a directory, given only its location."""
        directory = Directory.at(place)
        if not directory.exists():
            raise ScriptError(
                "no pipeline has been here",
                "a directory is what `millstream run` was given as --directory, or state/<name of the script>",
                "Check the path, or run a script first.",
                Where(file=place),
            )
        registry = Registry(directory.files.below("registry"))
        compiled = partial(tried, functions=functions or {})
        return cls(directory=directory, registry=registry, compiled=compiled, current=registry.in_force)

    def expected(self) -> InForce:
        """What will be in force once the inbox is empty."""
        # Read in this order, a change that a batch applies in between counts twice, which is harmless, and is never
        # missed.
        waiting = self.registry.waiting()
        found = self.current()
        for _, entry in waiting:
            found = found.after(entry)
        return found

    def batch(self) -> int:
        last = manifests.latest(self.directory.files.below("manifest"))
        return last.batch if last else 0

    def add(self, text: str, file: str | None = None) -> list[Asked]:
        """Requests the queries of a text, if all are valid. Raises all errors, each with its place in the text."""
        added = self.check(self.expected(), text, file=file)
        return [self._ask("add", one.name, one.text) for one in added.statements]

    def add_one(
        self, name: str, text: str, *, to_files: bool = True, before: Callable[[str], None] = lambda _: None
    ) -> Asked:
        """Requests the one query of a text; `before` gets its ticket before any batch can apply the change."""
        added = self.check(self.expected(), text, only=name, elsewhere=() if to_files else (name,))
        ticket = self.registry.ticket()
        before(ticket)
        return self._ask("add", name, added.statements[0].text, ticket=ticket, callback=not to_files)

    def drop(self, name: str) -> Asked:
        return self._ask("drop", self.known(self.expected(), name))

    def rescale(self, slots: int) -> Asked:
        """Requests another number of slots."""
        last = manifests.latest(self.directory.files.below("manifest"))
        check_slots(slots, len(last.routing) if last else MOST_GROUPS, self.directory.location)
        return self._ask("slots", "", str(slots))

    def outcome(self, asked: Asked) -> str:
        """The outcome in words; waits for a running pipeline to apply the change."""
        while self.registry.is_waiting(asked.ticket):
            if not self.directory.is_running():
                return "waits; it takes effect when the pipeline is started next"
            time.sleep(_POLL_SECONDS)
        why = self.registry.refusal(asked.ticket)
        if why is not None:
            raise ScriptError(f"not applied: {why}", "nothing has changed", "Correct it and ask again.")
        return f"{'dropped' if asked.action == 'drop' else 'in force'} from batch {self._batch_of(asked)} on"

    def known(self, now: InForce, name: str) -> str:
        """The name of a query as it was declared. Raises ScriptError where there is none."""
        found = now.find(name)
        if found is None:
            raise ScriptError(
                f'no query "{name}"',
                f"the queries are {listing(now.queries) or 'none'}",
                did_you_mean(name, now.queries, "Use one of these." if now.queries else "Add one first."),
                Where(file=self.directory.location),
            )
        return found

    def check(
        self,
        now: InForce,
        text: str,
        *,
        only: str | None = None,
        elsewhere: Collection[str] = (),
        file: str | None = None,
    ) -> Added:
        """What a text adds to what is in force. Raises all its errors.

        `only` is the one query it may hold, and `elsewhere` are those whose rows go to no files.
        """
        statements = sql.declared(text)
        others = [one for one in statements if one.kind != "query"]
        if others:
            raise ScriptErrors(_not_a_query(one.title, one.where, file) for one in others)
        taken = {one.name: now.find(one.name) for one in statements}
        clashes = [already_there(known).at(one.where) for one in statements if (known := taken[one.name])]
        before = now.without(filter(None, taken.values())).text() if now.script else ""
        try:
            plan = self.compiled(before + text)
            self._check_ends(plan.script, now, elsewhere)
        except ScriptErrors as found:
            raise ScriptErrors([*_placed(found.errors, before.count("\n")), *clashes]) from None
        if clashes:
            raise clashes[0] if len(clashes) == 1 else ScriptErrors(clashes)
        if not statements:
            raise _not_a_query("no statement", Where(), file)
        if only is not None and [one.name for one in statements] != [only]:
            names = listing(f'"{one.name}"' for one in statements)
            raise ScriptError(f'{names} to add as "{only}"', ONE_AT_A_TIME, "Ask for each by its own name.")
        return Added(tuple(sql.split(text)), plan)

    def _check_ends(self, script: Script, now: InForce, elsewhere: Collection[str]) -> None:
        wrong = wrong_sinks(script, now.base)
        if wrong:
            raise ScriptErrors(wrong)
        new = [query for query in script.queries if query.name not in now.queries and query.name not in elsewhere]
        try:
            check_claims(new, base=now.base, owner=now.owner, directory=self.directory)
        except ScriptError as error:
            raise ScriptErrors([error]) from None

    def _ask(
        self, action: str, query: str, text: str = "", *, ticket: str | None = None, callback: bool = False
    ) -> Asked:
        return Asked(self.registry.ask(action, query, text, ticket=ticket, callback=callback), action, query)

    def _batch_of(self, asked: Asked) -> int:
        """The batch with which a change took effect: that of the last change of its kind for the same query."""
        entries = map(self.registry.entry, range(self.registry.count(), 0, -1))
        return next(one.batch for one in entries if (one.action, one.query) == (asked.action, asked.query))


def tried(text: str, *, functions: Mapping[str, Function]) -> Plan:
    """The plan of a script, if the engine can evaluate all its expressions."""
    plan = compile_script(text, functions=functions)
    try_out(plan, functions)
    return plan


def check_slots(slots: int, groups: int, place: str) -> None:
    if not isinstance(slots, int) or not 1 <= slots <= groups:
        raise ScriptError(
            f"{slots:,} slots" if isinstance(slots, int) else f"slots = {slots!r}",
            f"there are from 1 to {groups:,}, since a slot has at least one partition group",
            "Give another number.",
            Where(file=place),
        )


def already_there(name: str) -> ScriptError:
    return ScriptError(f'query "{name}" is there already', "names differ", "Drop it first, or rename it.")


def _not_a_query(found: str, where: Where, file: str | None) -> ScriptError:
    return ScriptError(
        found,
        "streams and settings stay as the pipeline was started; CREATE QUERY can be added",
        "Give CREATE QUERY statements alone.",
        replace(where, file=file),
    )


def _placed(errors: Iterable[ScriptError], skipped: int) -> Iterator[ScriptError]:
    """Errors with lines counted within the added text, without the lines of what is in force."""
    for error in errors:
        line = error.where.line - skipped
        if not error.where.line:
            yield error
        elif line > 0:
            yield ScriptError(error.found, error.valid, error.todo, replace(error.where, line=line))
        else:
            yield ScriptError(
                error.found,
                error.valid,
                "It is in force already: name the same --functions as the pipeline was started with.",
                Where(query=error.where.query),
            )
