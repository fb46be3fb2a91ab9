"""Scripts that are begun in a directory as far as that goes without Spark: with the fixture `begin`."""

from __future__ import annotations

from collections.abc import Callable

from millstream.pipeline.control import Control

Begin = Callable[..., Control]
FROM_FILES = """
CREATE STREAM A (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/A');
CREATE STREAM B (k INT, s STRING, Ts TIMESTAMP) WITH (time = 'Ts', path = 'in/B');
"""
SELECT = "SELECT A.k, A.s FROM A, B WHERE A.k = B.k WINDOW 1 MINUTE"


def query(name: str, options: str = "", select: str = SELECT) -> str:
    return f"CREATE QUERY {name}{f' WITH ({options})' if options else ''} AS {select};"
