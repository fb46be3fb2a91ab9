"""For users' own tests: a script on rows in memory, a clock moved by hand, and the naive oracle to compare with.

This room is public: `from millstream.testing import run`.
"""

from millstream.testing.naive import naive
from millstream.testing.run import run
from millstream.testing.session import Session

__all__ = ["Session", "naive", "run"]
