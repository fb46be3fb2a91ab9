"""A whole script: streams, queries and settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.model.query import Query
from millstream.model.settings import Settings
from millstream.model.stream import Stream


@dataclass(frozen=True, slots=True)
class Script:
    """What a pipeline is made of, in the order of the text."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    settings: Settings = field(default_factory=Settings)
