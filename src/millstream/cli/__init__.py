"""The command `millstream`: what a person types, and how errors and plans are shown.

This room knows every other one and no other room knows it.
"""

from millstream.cli.main import main

__all__ = ["main"]
