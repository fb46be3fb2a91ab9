"""The command `millstream`: what a person types, and how errors and plans are shown.

This room may import every other room, and no other room imports it.
"""

from millstream.cli.main import main

__all__ = ["main"]
