"""How a running pipeline looks: a view for a terminal, a line per batch for anything else. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millstream.cli.history import History, parts
from millstream.cli.words import bar, complete, count, counted, memory, seconds, share, size
from millstream.model.interval import cut_text
from millstream.pipeline.progress import BatchProgress, SliceState

_QUERIES = 14
_SLICES = 14
_MESSAGES = 4
_BAR = 32
_PARTS = {
    "read": ("█", "cyan"),
    "join": ("▓", "green"),
    "write": ("▒", "yellow"),
    "Spark": ("░", "magenta"),
    "deliver": ("▚", "blue"),
}


def line(batch: BatchProgress) -> str:
    """One batch as a line of text."""
    rows_out = sum(response.rows for response in batch.queries.values())
    split = ", ".join(f"{part} {spent:.2f}" for part, spent in parts(batch).items())
    shown = [
        f"batch {batch.batch}",
        f"{count(sum(batch.rows_in.values()))} rows in",
        f"{count(rows_out)} out",
        f"{batch.seconds:.2f} s ({split})",
        f"state {count(batch.state_rows)} rows, {size(batch.state_bytes)}",
    ]
    if memory(batch):
        shown.append(memory(batch))
    if batch.late:
        shown.append(f"{count(sum(batch.late.values()))} late")
    if batch.shed:
        shown.append(f"{count(sum(batch.shed.values()))} shed")
    if complete(batch):
        shown.append(f"results {complete(batch)}")
    if batch.deferred:
        held = ", reading is held back" if batch.held_back else ""
        shown.append(f"{counted(batch.deferred, 'unit')} deferred{held}")
    return "  ".join(shown)


def view(history: History, title: str, now: float | None = None) -> RenderableType:
    """The whole view."""
    last = history.last
    if last is None:
        return Group(
            Text(title, style="bold"), Text("waiting for the first rows ...", style="dim"), *_messages(history)
        )
    running = (now or last.committed) - history.began
    head = Text.assemble((title, "bold"), f"  batch {last.batch}, running for {seconds(running)}")
    return Group(
        head,
        *(Text(f"warning: {warning}", style="bold red") for warning in last.warnings),
        Text(),
        _streams(history, last, now),
        Text(),
        _queries(history, last, now),
        *_estimated(last),
        Text(),
        *_state(history, last),
        Text(),
        *_batch(last),
        *_messages(history),
    )


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _streams(history: History, last: BatchProgress, now: float | None) -> Table:
    """The streams. `behind` is how far a stream's greatest event time is behind the clock."""
    is_short = any(history.shed.values())
    table = _table("stream", "rows/s in", "rows in", "late", *(["shed"] if is_short else []), "behind")
    for stream in sorted({*history.rows_in, *last.lag_seconds}):
        lag = last.lag_seconds.get(stream)
        table.add_row(
            stream,
            count(history.rate_in(stream, now)),
            count(history.rows_in[stream]),
            count(history.late[stream]),
            *([count(history.shed[stream])] if is_short else []),
            "-" if lag is None else seconds(max(0.0, lag)),
        )
    return table


def _queries(history: History, last: BatchProgress, now: float | None) -> Table:
    estimated = ["complete"] if last.completeness else []
    table = _table("query", "window", "rows/s out", "rows out", "median", "p99", *estimated)
    names = history.queries()
    shown = names if len(names) <= _QUERIES else sorted(names, key=lambda name: -history.rows_out[name])[:_QUERIES]
    for name in shown:
        waits = history.waits.get(name)
        table.add_row(
            name,
            history.windows.get(name, "gone"),
            count(history.rate_out(name, now)),
            count(history.rows_out[name]),
            seconds(waits.median) if waits else "-",
            seconds(waits.p99) if waits else "-",
            *([share(last.completeness[name]) if name in last.completeness else "-"] if estimated else []),
        )
    if len(names) > len(shown):
        rest = len(names) - len(shown)
        table.add_row(
            f"and {rest:,} more",
            "",
            "",
            count(history.rows_out.total() - sum(history.rows_out[name] for name in shown)),
        )
    return table


def _estimated(last: BatchProgress) -> list[RenderableType]:
    """How completeness was estimated, where rows have been shed."""
    return [Text(f"complete: estimated {last.completeness_by}", style="dim")] if last.completeness else []


def _state(history: History, last: BatchProgress) -> list[RenderableType]:
    waiting = f", {counted(last.deferred, 'unit')} deferred" if last.deferred else ""
    waiting += ", reading is held back" if last.held_back else ""
    lines: list[RenderableType] = [Text(f"state {count(last.state_rows)} rows, {size(last.state_bytes)}{waiting}")]
    lines += _memory(history, last)
    for chain, slices in last.slices.items():
        if len(last.slices) > 1:
            lines.append(Text(chain, style="dim"))
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for justify in ("right", "left", "right", "left"):
            grid.add_column(justify=justify, no_wrap=True)
        thin = _thinned(slices)
        most = max((rows for _, _, rows in thin), default=0)
        for lo, hi, rows in thin:
            grid.add_row(cut_text(lo), f"to {cut_text(hi)}", count(rows), Text(bar(rows, most, _BAR), style="blue"))
        lines.append(grid)
    return lines


def _memory(history: History, last: BatchProgress) -> list[RenderableType]:
    """Where the state is, how far clean-up has come while there are no rows, and what was last done and why."""
    lines: list[RenderableType] = [Text(memory(last))] if memory(last) else []
    if last.owing and not any(last.rows_in.values()):
        done = history.owed - last.owing
        drawn = bar(done, history.owed, _BAR)
        left = (
            f"clean-up {drawn}{'░' * (_BAR - len(drawn))} {count(last.owing)} of {counted(history.owed, 'group')} left"
        )
        lines.append(Text(left, style="blue"))
    if history.adaptation:
        lines.append(Text(history.adaptation, style="dim"))
    return lines


def _thinned(slices: Sequence[SliceState]) -> list[tuple[int, int, int]]:
    """Merges neighbours until they fit."""
    step = -(-len(slices) // _SLICES) or 1
    groups = [slices[first : first + step] for first in range(0, len(slices), step)]
    return [(some[0].interval.lo, some[-1].interval.hi, sum(one.rows for one in some)) for some in groups]


def _batch(last: BatchProgress) -> list[RenderableType]:
    drawn, named = Text(), Text(f"last batch {seconds(last.seconds)}: ")
    spent = parts(last)
    total = sum(spent.values()) or 1.0
    for part, time in spent.items():
        letter, style = _PARTS[part]
        drawn.append(letter * round(time / total * (_BAR + 16)), style)
        named.append(f"{letter} {part} {time:.2f} s  ", style)
    return [named, drawn]


def _messages(history: History) -> list[RenderableType]:
    shown = history.messages[-_MESSAGES:]
    return [Text(), *(Text(message, style="yellow") for message in shown)] if shown else []
