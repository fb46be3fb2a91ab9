"""Numbers of bytes as text: '812 B', '9.8 MB', '2 GB', '512 MiB'."""

from __future__ import annotations

import re

from millstream.errors import ScriptError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS: dict[str, int] = {
    **{unit: 1_000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1_024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), start=1)},
}


def parse(given: str) -> int:
    """The bytes that a text means. A number alone is bytes, 0 or at least 1,000: a smaller one has lost its unit."""
    found = _SIZE.fullmatch(given.strip())
    number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
    nbytes = number * _UNITS.get(unit, 0 if unit else 1)
    if found is None or (number and nbytes < (1 if unit else 1_000)):
        raise ScriptError(
            f"size {given!r}",
            "a size is a number with B, kB, MB, GB or TB (powers of 1,000), KiB, MiB, GiB or TiB (of 1,024)",
            "Write, for example, '2 GB'.",
        )
    return int(nbytes)


def text(nbytes: float) -> str:
    """In powers of ten: '812 B', '9.8 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.3g} {unit}"
        nbytes /= 1_000
    return f"{nbytes:,.3g} TB"
