"""The summary of a run, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millstream.cli.history import DELIVER, History
from millstream.cli.words import complete, count, counted, memory, near, seconds, share, size


def summary_lines(
    history: History, directory: str, places: Mapping[str, str], stopped: Mapping[str, str]
) -> Iterator[str]:
    """`places` says where each query's results are, `stopped` which queries an error has stopped, and why."""
    last = history.last
    if last is None:
        yield f"No batch: there was nothing to read. The pipeline's directory is {near(directory)}."
        yield from _stopped(stopped)
        return
    span = last.committed - history.began
    rows = ", ".join(f"{stream} {count(number)}" for stream, number in sorted(history.rows_in.items())) or "none"
    yield f"{counted(history.batches, 'batch')} in {seconds(span)}; rows in: {rows}"
    late = ", ".join(f"{stream} {count(number)}" for stream, number in sorted(history.late.items()) if number)
    if late:
        yield f"late or unreadable, kept in {near(directory)}/late: {late}"
    shed = ", ".join(f"{stream} {count(number)}" for stream, number in sorted(history.shed.items()) if number)
    if shed:
        yield f"shed, because rows came too fast: {shed}"
    if last.completeness:
        yield f"results are {complete(last)}, estimated {last.completeness_by}"
    yield from (f"warning: {warning}" for warning in last.warnings)
    split = ", ".join(f"{part} {seconds(spent)}" for part, spent in history.split.items())
    yield f"time in batches {seconds(history.seconds)}: {split}"
    yield f"state {count(last.state_rows)} rows, {size(last.state_bytes)}"
    if memory(last):
        yield memory(last)
    if last.owing:
        yield "what groups owe is found when there is room, or no new rows come, after a restart too; --drain finds all"
    if last.deferred:
        yield f"{counted(last.deferred, 'unit')} of work deferred: a restart takes them up, --drain finishes them"
    names = history.queries()
    wide = max((len(name) for name in names), default=0)
    numbers = {name: count(history.rows_out[name]) for name in names}
    long = max((len(number) for number in numbers.values()), default=0)
    yield f"rows out, response (median, p99), {'about complete, ' if last.completeness else ''}results:"
    for name in names:
        waits = history.waits.get(name)
        times = f"{seconds(waits.median):>8} {seconds(waits.p99):>8}" if waits else f"{'-':>8} {'-':>8}"
        place = near(places[name]) if name in places else "stopped" if name in stopped else "dropped"
        if last.completeness:
            times += f"  {share(last.completeness[name]) if name in last.completeness else '-':>7}"
        yield f"  {name:{wide}}  {numbers[name]:>{long}}  {times}  {place}"
    yield from _stopped(stopped)


def _stopped(queries: Mapping[str, str]) -> Iterator[str]:
    """The errors in full: the first line, and where in a user's function they were raised."""
    for name, cause in queries.items():
        first, *rest = cause.splitlines() or [""]
        yield f"query {name} was stopped: {first}"
        yield from (f"  {line}" for line in rest)


def summary_json(
    history: History, directory: str, places: Mapping[str, str], *, error: str | None, stopped: Mapping[str, str]
) -> dict[str, Any]:
    last = history.last
    return {
        "directory": directory,
        "batches": history.batches,
        "last_batch": last.batch if last else None,
        "seconds": last.committed - history.began if last else 0.0,
        "rows_in": dict(history.rows_in),
        "late": dict(history.late),
        "shed": dict(history.shed),
        "queries": {
            name: {
                "rows": history.rows_out[name],
                "median": history.waits[name].median if name in history.waits else None,
                "p99": history.waits[name].p99 if name in history.waits else None,
                "completeness": last.completeness.get(name, 1.0) if last else 1.0,
                "results": places.get(name),
            }
            for name in history.queries()
        },
        "completeness_by": last.completeness_by if last else "",
        "state_rows": last.state_rows if last else 0,
        "state_bytes": last.state_bytes if last else 0,
        "memory_bytes": last.memory_bytes if last else 0,
        "memory_limit": last.memory_limit if last else 0,
        "disk_bytes": last.disk_bytes if last else 0,
        "deferred": last.deferred if last else 0,
        "owing": last.owing if last else 0,
        "split": {DELIVER: 0.0, **history.split},
        "messages": list(history.messages),
        "warnings": list(last.warnings) if last else [],
        "stopped": dict(stopped),
        "error": error,
    }
