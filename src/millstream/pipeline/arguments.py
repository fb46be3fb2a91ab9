"""What Python callers pass to a pipeline, checked when they pass it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from millstream import sql
from millstream.errors import ScriptError, Where, listing
from millstream.pipeline.changes import ONE_AT_A_TIME, already_there


def check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise ScriptError(f"the {what} is a {type(value).__name__}", "it is a text", "Give a string.")


def check_no_session(given: SparkSession | None, options: Mapping[str, str]) -> None:
    """Options are for a session that the pipeline makes: one that is there has its own."""
    if options and (given is not None or SparkSession.getActiveSession() is not None):
        raise ScriptError(
            f"there is a Spark session, and options for one: {listing(options)}",
            "packages, jars and conf are for the session that a pipeline makes where there is none",
            "Give them to the session you make, or leave the session to the pipeline.",
        )


def check_frame(name: str, frame: object) -> None:
    if not isinstance(frame, DataFrame):
        found = f"stream {name} is a {type(frame).__name__}"
        raise ScriptError(found, "a stream is a streaming DataFrame", "Make one with spark.readStream.")


def check_sink(name: str, sink: object, options: Mapping[str, str]) -> None:
    """A callback is callable, and the query has no other place for its rows."""
    if sink is None:
        return
    if not callable(sink):
        found = f"the sink of query {name} is a {type(sink).__name__}"
        raise ScriptError(found, "a sink is called with (batch, rows)", "Give a function.")
    places = [option for option in options if option.lower() in ("path", "format")]
    if places:
        raise ScriptError(
            f"query {name} has a sink and {listing(places)}",
            "rows go to a callback, or where path and format say",
            "Leave one of both out.",
        )


def check_alone(name: str, statement: str, before: Iterable[str]) -> None:
    """One statement, with a name that none of those before it has. What it reads may be declared later."""
    if len(sql.split(statement)) > 1:
        raise ScriptError(
            f'several statements to add as "{name}"', ONE_AT_A_TIME, "Add each by its own name.", Where(query=name)
        )
    declared = [one.name for text in before for one in sql.split(text) if one.kind == "query"]
    known = next((one for one in declared if one.lower() == name.lower()), None)
    if known is not None:
        raise already_there(known)
