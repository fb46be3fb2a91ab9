"""Where a run is shown: a live view on a terminal, lines elsewhere, JSON for machines."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.live import Live

from millstream.cli.history import History
from millstream.cli.live import line, view
from millstream.cli.summary import summary_json, summary_lines
from millstream.pipeline.progress import BatchProgress


class Screen(AbstractContextManager["Screen"]):
    """Shows a line per batch, except for batches that have nothing to do. The other screens extend this one."""

    def __init__(self, title: str, *, timed: bool = True) -> None:
        """Lines begin with the time if they are `timed`."""
        self.title, self._timed = title, timed
        self.history = History()

    def batch(self, batch: BatchProgress, windows: Mapping[str, str]) -> None:
        self.history.windows = dict(windows)
        self.history.add(batch)
        if any(batch.rows_in.values()) or batch.queries or batch.deferred or batch.owing:
            click.echo(f"{self._clock()}{line(batch)}")

    def say(self, message: str) -> None:
        """Shows a message."""
        self.history.messages.append(message)
        click.echo(f"{self._clock()}{message}")

    def end(
        self,
        directory: str,
        places: Mapping[str, str],
        *,
        error: str | None = None,
        stopped: Mapping[str, str] | None = None,
    ) -> None:
        """Shows the summary, with the queries that errors have stopped; the error that ended the run is shown by the
        caller.
        """
        del error
        click.echo()
        for text in summary_lines(self.history, directory, places, stopped or {}):
            click.echo(text)

    def _clock(self) -> str:
        """The time that begins a line, in UTC."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ  ") if self._timed else ""

    def __exit__(self, *_: object) -> None:
        return None


class JsonScreen(Screen):
    """One line of JSON per batch and one for the whole; messages go to the standard error."""

    def batch(self, batch: BatchProgress, windows: Mapping[str, str]) -> None:
        self.history.windows = dict(windows)
        self.history.add(batch)
        _echo_json(batch.to_json())

    def say(self, message: str) -> None:
        self.history.messages.append(message)
        click.echo(f"{self._clock()}{message}", err=True)

    def end(
        self,
        directory: str,
        places: Mapping[str, str],
        *,
        error: str | None = None,
        stopped: Mapping[str, str] | None = None,
    ) -> None:
        _echo_json({"summary": summary_json(self.history, directory, places, error=error, stopped=stopped or {})})


class LiveScreen(Screen):
    """A view that is redrawn twice a second."""

    def __init__(self, title: str, *, timed: bool = True) -> None:
        super().__init__(title, timed=timed)
        self._lock = threading.Lock()  # batches come from a different thread than the one that draws
        self._live = Live(console=Console(), refresh_per_second=2, get_renderable=self._view)

    def __enter__(self) -> LiveScreen:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def batch(self, batch: BatchProgress, windows: Mapping[str, str]) -> None:
        with self._lock:
            self.history.windows = dict(windows)
            self.history.add(batch)

    def say(self, message: str) -> None:
        self.history.messages.append(message)

    def end(
        self,
        directory: str,
        places: Mapping[str, str],
        *,
        error: str | None = None,
        stopped: Mapping[str, str] | None = None,
    ) -> None:
        self._live.stop()
        super().end(directory, places, error=error, stopped=stopped)

    def _view(self) -> RenderableType:
        with self._lock:
            return view(self.history, self.title, time.time())


def screen_for(title: str, *, as_json: bool = False, timed: bool = True) -> Screen:
    make = JsonScreen if as_json else LiveScreen if sys.stdout.isatty() else Screen
    return make(title, timed=timed)


def _echo_json(shown: dict[str, Any]) -> None:
    click.echo(json.dumps(shown, separators=(",", ":")))
