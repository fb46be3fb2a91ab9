"""Serialisation of the messages between the driver and its slots.

Messages go through Spark, which pickles the functions it sends in the same way. Data read from a file or a source is
never unpickled: manifests are JSON, segments and results are Arrow.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from millstream.errors import ScriptError
from millstream.model.functions import Function

_Serializer: Any = CloudPickleSerializer


def packed(what: object) -> bytes:
    """Pickles users' functions by value, because workers could not import them."""
    return bytes(_Serializer().dumps(what))


def check_sendable(functions: Mapping[str, Function]) -> None:
    """Refuses a function that cannot be sent to the workers because of an object it refers to."""
    for name, function in functions.items():
        try:
            packed(function)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ScriptError(
                f"function {name} cannot be sent to Spark's workers ({error})",
                "a function may use modules, and values that can be pickled",
                "Make what it uses inside it, or at the top of a module.",
            ) from None


def unpacked(what: bytes) -> Any:
    return _Serializer().loads(what)
