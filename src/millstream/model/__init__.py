"""What a user declares: streams, queries, settings, and the expressions and intervals inside them.

Everything here is immutable and checks itself on construction. This room knows only `errors`: not SQL text, not plans,
not Spark.
"""

from millstream.model.expr import TRUE, Call, Column, Expr, Literal
from millstream.model.functions import Function, function
from millstream.model.interval import Interval
from millstream.model.query import Bound, Key, Output, Query, RowsWindow, Source, TimeWindow
from millstream.model.script import Script
from millstream.model.settings import SETTINGS, Settings
from millstream.model.stream import Stream, StreamColumn
from millstream.model.types import DataType

__all__ = [
    "SETTINGS",
    "TRUE",
    "Bound",
    "Call",
    "Column",
    "DataType",
    "Expr",
    "Function",
    "Interval",
    "Key",
    "Literal",
    "Output",
    "Query",
    "RowsWindow",
    "Script",
    "Settings",
    "Source",
    "Stream",
    "StreamColumn",
    "TimeWindow",
    "function",
]
