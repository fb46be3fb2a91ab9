"""A plan in words, as JSON or as a graph."""

from __future__ import annotations

from millstream.plan.explain.as_dot import as_dot
from millstream.plan.explain.as_json import as_json
from millstream.plan.explain.as_text import as_text

FORMATS = {"text": as_text, "json": as_json, "dot": as_dot}

__all__ = ["FORMATS", "as_dot", "as_json", "as_text"]
