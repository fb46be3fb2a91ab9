"""For users' own tests: run a script on rows in memory, and the naive oracle to compare with.

This room sits beside `cli` and is public: `from millstream.testing import run`.
"""

from millstream.testing.naive import naive
from millstream.testing.run import Rows, as_batches, run

__all__ = ["Rows", "as_batches", "naive", "run"]
