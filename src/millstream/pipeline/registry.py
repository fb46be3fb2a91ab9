"""The registry: every statement that ever took effect, in order, and those that wait for the next batch.

It defines what runs: streams and settings of the script last started, its queries and those added since, without those
dropped or stopped by an error. Every entry is stored twice, because nothing else records what runs.
"""

from __future__ import annotations

import re
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from millstream import sql
from millstream.engine.files import DamagedFileError, Files, damaged
from millstream.errors import ScriptError, Where
from millstream.pipeline.sealed import read_sealed, sealed, set_aside

INBOX, COPIES = "inbox", "copies"
_ACTIONS = ("script", "add", "drop", "fail", "slots")
_ASKED = ("add", "drop", "slots")
_NAME = re.compile(r"\d{6,}\.json")
_TICKET = re.compile(r"\d{20}-[0-9a-f]{6}\.json")
_KINDS = {"batch": int, "callbacks": tuple, "slots": int}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A change that took effect with a batch: a script, a query added or dropped, a query stopped by an error, or
    another number of slots, which is its text.

    The first entry of a directory also holds the base of relative paths and the pipeline's id. `callbacks` are the
    queries of the entry whose rows go to Python callbacks, which no file can hold. `slots` is how many the settings of
    a script ask for.
    """

    action: str
    batch: int
    _: KW_ONLY
    text: str = ""
    query: str = ""
    error: str = ""
    base: str = ""
    owner: str = ""
    callbacks: tuple[str, ...] = ()
    slots: int = 0

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Entry:
        return cls(**{**saved, "callbacks": tuple(saved.get("callbacks", ()))})

    def to_json(self) -> dict[str, Any]:
        """Without `callbacks` and `slots` where there are none, as entries were before there were any: checksums stay
        the same.
        """
        saved = asdict(self)
        return {name: value for name, value in saved.items() if value or name not in ("callbacks", "slots")}

    def __post_init__(self) -> None:
        if self.action not in _ACTIONS:
            raise ScriptError(f"action {self.action!r}", f"it is one of {', '.join(_ACTIONS)}", "Use one of these.")
        for one in fields(self):
            kind = _KINDS.get(one.name, str)
            if not isinstance(getattr(self, one.name), kind):
                raise ScriptError(f"{one.name} = {getattr(self, one.name)!r}", f"it is a {kind.__name__}", "Mend it.")
        if self.action == "slots" and not (self.text.isdecimal() and int(self.text)):
            raise ScriptError(f"slots = {self.text!r}", "it is a whole number from 1 on", "Mend it.")


@dataclass(frozen=True, slots=True)
class Registered:
    """A query in force: its statement, the first batch whose rows it sees, and whether the script declares it."""

    text: str
    since: int
    of_script: bool
    _: KW_ONLY
    callback: bool = False
    """Whether its rows go to a Python callback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The result of applying the entries in order."""

    count: int = 0
    script: str = ""
    declarations: tuple[str, ...] = ()
    queries: Mapping[str, Registered] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    changed_at: tuple[int, ...] = ()
    """Batches with which something changed."""
    base: str = ""
    owner: str = ""
    slots: int = 0
    """How many slots were asked for since a script said how many; 0 where none were."""
    declared_slots: int = 0
    """How many the last script asks for."""

    def find(self, name: str) -> str | None:
        """The name of a query in force as it was declared; the case of letters does not matter."""
        return _find(self.queries, name)

    def text(self) -> str:
        """Everything in force as one script."""
        return ";\n".join((*self.declarations, *(query.text for query in self.queries.values()))) + ";\n"

    def without(self, names: Iterable[str]) -> InForce:
        """The same without these queries."""
        gone = set(names)
        return replace(self, queries={name: one for name, one in self.queries.items() if name not in gone})

    def after(self, entry: Entry) -> InForce:
        changed = self.changed_at if entry.batch in self.changed_at else (*self.changed_at, entry.batch)
        now = replace(self, count=self.count + 1, changed_at=changed)
        queries, failed = dict(self.queries), dict(self.failed)
        if entry.action == "script":
            return now._with_script(entry)
        if entry.action == "slots":
            return replace(now, slots=int(entry.text))
        _take(queries, entry.query)
        _take(failed, entry.query)
        if entry.action == "add":
            callback = entry.query in entry.callbacks
            queries[entry.query] = Registered(entry.text, entry.batch, of_script=False, callback=callback)
        elif entry.action == "fail":
            failed[entry.query] = entry.error
        return replace(now, queries=queries, failed=failed)

    def _with_script(self, entry: Entry) -> InForce:
        """Queries of the script with unchanged statements go on; those added while running stay."""
        statements = sql.split(entry.text)
        declared = {one.name: one.text for one in statements if one.kind == "query"}
        before = {one.name: one.text for one in sql.split(self.script) if one.kind == "query"} if self.script else {}
        queries = {name: query for name, query in self.queries.items() if not query.of_script}
        for name, text in declared.items():
            known = self.queries.get(name)
            same = name in before and sql.same(before[name], text)
            if known is not None and (same or sql.same(known.text, text)):
                queries[name] = replace(known, callback=name in entry.callbacks)
            elif not same:
                _take(queries, name)
                callback = name in entry.callbacks
                queries[name] = Registered(text, entry.batch, of_script=True, callback=callback)
        failed = {name: error for name, error in self.failed.items() if _find(queries, name) is None}
        return replace(
            self,
            base=self.base or entry.base,
            owner=self.owner or entry.owner,
            script=entry.text,
            declarations=tuple(one.text for one in statements if one.kind != "query"),
            queries=queries,
            failed=failed,
            slots=self.slots if entry.slots == self.declared_slots else 0,
            declared_slots=entry.slots,
        )


class Registry:
    """The registry of a directory. Only a running pipeline writes entries; anyone may put changes into the inbox."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def in_force(self) -> InForce:
        """The result of applying all entries. Raises ScriptError where one is lost."""
        found = InForce()
        for number in range(1, self.count() + 1):
            found = found.after(self.entry(number))
        return found

    def count(self) -> int:
        """How many entries there are."""
        names = [name for name in (*self._files.names(), *self._files.names(COPIES)) if _NAME.fullmatch(name)]
        return max((int(name.partition(".")[0]) for name in names), default=0)

    def entry(self, number: int) -> Entry:
        """An entry; its copy where the entry is damaged."""
        name = _entry_name(number)
        try:
            return self._read(name)
        except DamagedFileError as error:
            try:
                return self._read(f"{COPIES}/{name}")
            except DamagedFileError as other:
                raise ScriptError(
                    f"{error.found}; of its copy in {COPIES}/: {other.found}",
                    "the entries of the registry say what runs, and each is there twice",
                    "Put one of both back from a backup, or start in a new directory.",
                    Where(file=self._files.path(name)),
                ) from None

    def mend(self, tell: Callable[[str], None]) -> None:
        """Restores an entry or copy that is lost or damaged from the other file."""
        for number in range(1, self.count() + 1):
            entry, name = self.entry(number), _entry_name(number)
            for place in (name, f"{COPIES}/{name}"):
                try:
                    whole = self._read(place) == entry
                    found = "it differs from its copy"
                except DamagedFileError as error:
                    whole, found = False, error.found
                if not whole:
                    if self._files.has(place):
                        set_aside(self._files, place)
                    self._files.write(place, sealed(entry.to_json()))
                    if place == name:
                        tell(f"{self._files.path(name)}: {found}; it is restored from its copy")

    def checksum(self, count: int) -> str:
        """The checksum of the first `count` entries."""
        crc = 0
        for number in range(1, count + 1):
            crc = zlib.crc32(sealed(self.entry(number).to_json()), crc)
        return f"{count}-{crc:08x}"

    def record(self, number: int, entry: Entry) -> None:
        content = sealed(entry.to_json())
        self._files.make(COPIES)
        for name in (f"{COPIES}/{_entry_name(number)}", _entry_name(number)):
            self._files.write(name, content)

    def clear(self) -> None:
        """Deletes all entries; changes in the inbox stay."""
        for folder in ("", COPIES):
            for name in filter(_NAME.fullmatch, self._files.names(folder)):
                self._files.delete(f"{folder}/{name}" if folder else name)

    def _read(self, name: str) -> Entry:
        return read_sealed(self._files, name, Entry.from_json)

    def ticket(self) -> str:
        """A new name for a change in the inbox. Names sort by creation time."""
        return f"{time.time_ns():020}-{uuid.uuid4().hex[:6]}.json"

    def ask(self, action: str, query: str, text: str = "", *, ticket: str | None = None, callback: bool = False) -> str:
        """Puts a change into the inbox and returns its ticket."""
        name = ticket or self.ticket()
        change = Entry(action, batch=0, text=text, query=query, callbacks=(query,) if callback else ())
        self._files.write(f"{INBOX}/{name}", sealed(change.to_json()))
        return name

    def is_asked(self) -> bool:
        """Whether any ticket is in the inbox, valid or not."""
        return bool(self._tickets())

    def waiting(self, tell: Callable[[str], None] | None = None) -> list[tuple[str, Entry]]:
        """The valid changes in the inbox, oldest first.

        Only the running pipeline passes `tell`: then damaged tickets are set aside, with a refusal for the client that
        made them.
        """
        found = []
        for name in self._tickets():
            try:
                found.append((name, self._asked(name)))
            except DamagedFileError as error:
                if tell is not None and self.is_waiting(name):
                    aside = set_aside(self._files, f"{INBOX}/{name}")
                    tell(f"{self._files.path(f'{INBOX}/{name}')}: {error.found}; it is set aside as {aside}")
                    self.refuse(name, error.found)
        return found

    def _tickets(self) -> list[str]:
        return [name for name in self._files.names(INBOX) if _TICKET.fullmatch(name)]

    def _asked(self, name: str) -> Entry:
        entry = self._read(f"{INBOX}/{name}")
        if entry.action not in _ASKED:
            raise damaged(self._files.path(f"{INBOX}/{name}"), f"nobody can ask for {entry.action!r}")
        return entry

    def is_waiting(self, name: str) -> bool:
        return self._files.has(f"{INBOX}/{name}")

    def take_out(self, name: str) -> None:
        self._files.delete(f"{INBOX}/{name}")

    def refuse(self, name: str, why: str) -> None:
        """Writes the refusal of a change for the client that requested it."""
        self._files.write(f"{INBOX}/{name}.refused", why.encode())

    def refusal(self, name: str) -> str | None:
        """Why a change that has left the inbox was refused, or None. Reading a refusal deletes it."""
        note = f"{INBOX}/{name}.refused"
        if not self._files.has(note):
            return None
        why = self._files.read(note).decode(errors="replace")
        self._files.delete(note)
        return why


def _find(queries: Iterable[str], name: str) -> str | None:
    lower = name.lower()
    return next((known for known in queries if known.lower() == lower), None)


def _take(queries: dict[str, T], name: str) -> None:
    """Removes the query of this name, if there is one."""
    known = _find(queries, name)
    if known is not None:
        del queries[known]


def _entry_name(number: int) -> str:
    return f"{number:06}.json"
