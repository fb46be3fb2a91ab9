"""What the driver and its slots say to each other, as bytes.

It travels through Spark, which pickles the functions it sends the same way. Nothing that was read from a file or a
source is ever unpacked: manifests are JSON, segments and results are Arrow.
"""

from __future__ import annotations

from typing import Any

from pyspark.serializers import CloudPickleSerializer

_Serializer: Any = CloudPickleSerializer


def packed(what: object) -> bytes:
    """Users' functions go along by value: workers could not import them."""
    return bytes(_Serializer().dumps(what))


def unpacked(what: bytes) -> Any:
    return _Serializer().loads(what)
