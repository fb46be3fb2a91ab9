"""How far event time has come: per stream, and for a chain the slowest of its streams that is not idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.model.stream import Stream

NEVER = -(2**62)


@dataclass(slots=True)
class StreamClock:
    """The greatest event time of a stream, and when (processing time, us) its last row came."""

    stream: Stream
    greatest: int = NEVER
    heard: int | None = None

    def saw(self, time: int, now: int) -> None:
        self.greatest = max(self.greatest, time)
        self.heard = now

    @property
    def watermark(self) -> int:
        return self.greatest - self.stream.delay if self.greatest > NEVER else NEVER

    def is_idle(self, now: int, started: int) -> bool:
        silent = now - (self.heard if self.heard is not None else started)
        return self.stream.idle is not None and silent > self.stream.idle


def chain_watermark(clocks: Iterable[StreamClock], now: int, started: int) -> int:
    """The minimum over streams that are not idle; if all are, event time stands still."""
    active = [clock.watermark for clock in clocks if not clock.is_idle(now, started)]
    return min(active, default=NEVER)
