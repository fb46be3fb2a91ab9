"""Numbers as text for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from millstream.model import sizes

if TYPE_CHECKING:
    from millstream.pipeline.progress import BatchProgress

BLOCKS = "▏▎▍▌▋▊▉█"
size = sizes.text


def count(number: float) -> str:
    return f"{number:,.0f}"


def counted(number: int, word: str) -> str:
    """'1 query', '2 queries'."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def memory(batch: BatchProgress) -> str:
    """Where the state is, and whose results wait for it; empty where all of it is in memory and may be."""
    if not (batch.memory_limit or batch.disk_bytes or batch.owing):
        return ""
    limit = f" of {size(batch.memory_limit)}" if batch.memory_limit else ""
    return f"{size(batch.memory_bytes)}{limit} in memory, {size(batch.disk_bytes)} on disk" + (
        f", {owing(batch.owing)}" if batch.owing else ""
    )


def share(part: float) -> str:
    """'93.1 %'. Only all is 100 %, and only nothing is 0 %."""
    return f"{min(max(100 * part, 0.1 if part > 0 else 0.0), 100.0 if part >= 1 else 99.9):.1f} %"


def complete(batch: BatchProgress) -> str:
    """How complete queries are, from the least on; empty where no rows were ever shed."""
    if not batch.completeness:
        return ""
    least, most = min(batch.completeness.values()), max(batch.completeness.values())
    return f"about {share(least)}{'' if share(least) == share(most) else f' to {share(most)}'} complete"


def owing(groups: int) -> str:
    return f"{counted(groups, 'group')} {'owes' if groups == 1 else 'owe'} results"


def seconds(length: float) -> str:
    """'0.61 s', '12 s', '5 min 12 s', '3 h 5 min', '12 d'."""
    if length < 10:
        return f"{length:.2f} s"
    whole = round(length)
    if whole < 60:
        return f"{whole} s"
    for unit, name, below, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit:,} {name} {rest} {small}" if rest else f"{whole // unit:,} {name}"
    return f"{whole} s"


def bar(value: float, most: float, width: int) -> str:
    """A bar for this share of the width, in eighths of a character; a share above zero is never empty."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(min(1.0, value / most) * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (BLOCKS[rest - 1] if rest else "")


def near(path: str | Path) -> str:
    """A path, relative to the current folder if it is inside it."""
    inside = "://" not in str(path) and Path(path).is_relative_to(Path.cwd())
    return str(Path(path).relative_to(Path.cwd())) if inside else str(path)
