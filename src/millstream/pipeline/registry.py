"""The registry: every statement that ever took effect, in order, and those that wait for the next batch.

What runs now follows from it: streams and settings of the script last started, its queries and those added since,
without those dropped or stopped by an error.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from millstream import sql
from millstream.engine.files import Files
from millstream.errors import ScriptError

INBOX = "inbox"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that took effect with a batch: a script, a query added or dropped, or a query stopped by an error."""

    action: str
    batch: int
    text: str = ""
    query: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Registered:
    """A query in force: its statement, the first batch whose tuples it sees, and whether the script declares it."""

    text: str
    since: int
    of_script: bool


@dataclass(frozen=True, slots=True)
class InForce:
    """What the entries up to now amount to."""

    count: int = 0
    script: str = ""
    declarations: tuple[str, ...] = ()
    queries: Mapping[str, Registered] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    changed_at: tuple[int, ...] = ()
    """Batches with which something changed."""

    def text(self) -> str:
        """The whole as one script."""
        return ";\n".join((*self.declarations, *(query.text for query in self.queries.values()))) + ";\n"

    def after(self, entry: Entry) -> InForce:
        changed = self.changed_at if entry.batch in self.changed_at else (*self.changed_at, entry.batch)
        now = replace(self, count=self.count + 1, changed_at=changed)
        queries, failed = dict(self.queries), dict(self.failed)
        if entry.action == "script":
            return now._with_script(entry)
        if entry.action == "add":
            queries[entry.query] = Registered(entry.text, entry.batch, of_script=False)
            failed.pop(entry.query, None)
        else:
            queries.pop(entry.query, None)
            if entry.action == "fail":
                failed[entry.query] = entry.error
            else:
                failed.pop(entry.query, None)
        return replace(now, queries=queries, failed=failed)

    def _with_script(self, entry: Entry) -> InForce:
        """Queries of the script that read as before go on; those added while running stay."""
        statements = sql.split(entry.text)
        declared = {one.name: one.text for one in statements if one.kind == "query"}
        before = {one.name: one.text for one in sql.split(self.script) if one.kind == "query"} if self.script else {}
        queries = {name: query for name, query in self.queries.items() if not query.of_script}
        for name, text in declared.items():
            known = self.queries.get(name)
            same = name in before and _words(before[name]) == _words(text)
            if known is not None and (same or _words(known.text) == _words(text)):
                queries[name] = known
            elif not same:
                queries[name] = Registered(text, entry.batch, of_script=True)
        failed = {name: error for name, error in self.failed.items() if name not in queries}
        return replace(
            self,
            script=entry.text,
            declarations=tuple(one.text for one in statements if one.kind != "query"),
            queries=queries,
            failed=failed,
        )


class Registry:
    """The registry of a directory. Only a running pipeline writes entries; anyone may put changes into the inbox."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def in_force(self) -> InForce:
        found = InForce()
        for name in self._files.names():
            if name.endswith(".json"):
                found = found.after(Entry(**json.loads(self._files.read(name))))
        return found

    def record(self, number: int, entry: Entry) -> None:
        self._files.write(f"{number:06}.json", json.dumps(asdict(entry), indent=1).encode())

    def ask(self, action: str, query: str, text: str = "") -> str:
        """Puts a change into the inbox and says under which name it waits there."""
        # Names sort by the time they were asked for.
        name = f"{time.time_ns():020}-{uuid.uuid4().hex[:6]}.json"
        change = Entry(action, 0, text, query)
        self._files.write(f"{INBOX}/{name}", json.dumps(asdict(change)).encode())
        return name

    def waiting(self) -> list[tuple[str, Entry]]:
        """Changes asked for, oldest first."""
        names = [name for name in self._files.names(INBOX) if name.endswith(".json")]
        return [(name, Entry(**json.loads(self._files.read(f"{INBOX}/{name}")))) for name in names]

    def is_waiting(self, name: str) -> bool:
        return self._files.has(f"{INBOX}/{name}")

    def take_out(self, name: str) -> None:
        self._files.delete(f"{INBOX}/{name}")

    def refuse(self, name: str, why: str) -> None:
        """Leaves word for whoever asked."""
        self._files.write(f"{INBOX}/{name}.refused", why.encode())

    def refusal(self, name: str) -> str | None:
        """Why a change that is no longer waiting was not applied, if it was not. Asked once: the answer goes."""
        note = f"{INBOX}/{name}.refused"
        if not self._files.has(note):
            return None
        why = self._files.read(note).decode()
        self._files.delete(note)
        return why


def _words(text: str) -> list[str]:
    return text.split()


def unknown_query(name: str, known: Iterable[str]) -> ScriptError:
    names = ", ".join(known) or "none"
    return ScriptError(f'no query "{name}"', f"the queries are {names}", "Use one of these.")
