"""Millstream: many window joins over the same streams, run as one shared stream of work on Spark."""

from millstream.model.functions import function

__all__ = ["__version__", "function"]
__version__ = "0.1.0"
