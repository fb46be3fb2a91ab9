"""Numbers of bytes as text: '812 B', '9.8 MB', '2 GB', '512 MiB'."""

from __future__ import annotations

import re

from millstream.errors import ScriptError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS: dict[str, int] = {
    **{unit: 1_000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1_024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), start=1)},
    "": 1,
}


def parse(given: str) -> int:
    """The bytes that a text means; a number alone is bytes."""
    found = _SIZE.fullmatch(given.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise ScriptError(
            f"size {given!r}",
            "a size is a number with B, kB, MB, GB or TB (powers of 1,000), KiB, MiB, GiB or TiB (of 1,024)",
            "Write, for example, '2 GB'.",
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


def text(nbytes: float) -> str:
    """In powers of ten: '812 B', '9.8 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.3g} {unit}"
        nbytes /= 1_000
    return f"{nbytes:,.3g} TB"
