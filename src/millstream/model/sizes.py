"""Numbers of bytes as text."""

from __future__ import annotations


def text(nbytes: float) -> str:
    """In powers of ten: '812 B', '9.8 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.3g} {unit}"
        nbytes /= 1_000
    return f"{nbytes:,.3g} TB"
