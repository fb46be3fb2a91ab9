"""The pipeline: a shared plan on Spark Structured Streaming, exactly once, changed while it runs.

The only room that imports pyspark. Spark reads the sources and shuffles every batch to slots by join key; each slot is
a shard of the engine (`slot`), the driver commits a batch by writing one manifest (`step`). What a pipeline is made of
lies in its directory: the registry of statements, manifests, segments and results.
"""

from millstream.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
