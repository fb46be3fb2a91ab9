"""Millstream: many window joins over the same streams, run as one shared stream of work on Spark."""

from typing import TYPE_CHECKING, Any

from millstream.model.functions import function

if TYPE_CHECKING:
    from millstream.pipeline import Pipeline

__all__ = ["Pipeline", "__version__", "function"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads Spark only when the pipeline is used."""
    if name == "Pipeline":
        from millstream.pipeline import Pipeline

        return Pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
