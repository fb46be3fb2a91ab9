"""The pipeline: a shared plan on Spark Structured Streaming, exactly once, changed while it runs.

The only room that imports pyspark. Spark reads the sources and shuffles every batch to slots by join key; each slot is
a shard of the engine (`slot`), the driver commits a batch by writing one manifest (`step`). A pipeline's directory
holds everything it needs: the registry of statements, manifests, segments and results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]


def __getattr__(name: str) -> object:
    """Loads Spark with the first pipeline, so that code that only reads a directory does not wait for it."""
    if name != "Pipeline":
        raise AttributeError(name)
    from millstream.pipeline.pipeline import Pipeline

    return Pipeline
