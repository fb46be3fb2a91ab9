"""Watermarks: per stream, and for a chain the minimum over its streams that are not idle."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from millstream.model.stream import Stream

NEVER = -(2**62)
FAR = 2**62


@dataclass(slots=True)
class StreamClock:
    """The greatest event time of a stream, and for how long it has returned no rows when polled.

    `silent` is the time of the first empty poll after its last rows, `asked` the time of the last empty poll. Times are
    microseconds. Time without polls, because a batch is long or the pipeline is down, does not make a stream idle.
    """

    stream: Stream
    greatest: int = NEVER
    silent: int | None = None
    asked: int = 0

    def saw(self, greatest: int) -> None:
        """A poll returned rows up to this time."""
        self.greatest = max(self.greatest, greatest)
        self.silent = None

    def had_nothing(self, now: int) -> None:
        self.asked = now
        if self.silent is None:
            self.silent = now

    @property
    def watermark(self) -> int:
        return self.greatest - self.stream.delay if self.greatest > NEVER else NEVER

    @property
    def is_idle(self) -> bool:
        return self.stream.idle is not None and self.silent is not None and self.asked - self.silent > self.stream.idle

    def horizon(self, future: int) -> int:
        """The latest valid time of a row: `future` after the greatest time seen and after today; a `future` of 0 is no
        limit.

        One row of the year 2200 would otherwise make all later ones late, for good.
        """
        return max(self.greatest, today()) + future if future else FAR


def chain_watermark(clocks: Iterable[StreamClock]) -> int:
    """The minimum over streams that are not idle; if all are idle, the watermark stands still."""
    return min((clock.watermark for clock in clocks if not clock.is_idle), default=NEVER)


def today() -> int:
    """The current time in microseconds since 1970."""
    return time.time_ns() // 1_000
