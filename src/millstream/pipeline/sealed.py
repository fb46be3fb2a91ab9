"""Small JSON files with a checksum: the last member is the checksum of the text before it.

A file that was truncated, overwritten or edited cannot be read.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from millstream.engine.files import DamagedFileError, Files, damaged
from millstream.errors import ScriptError

ASIDE = ".damaged"
_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n\Z')
_Read = TypeVar("_Read")


def sealed(content: dict[str, Any]) -> bytes:
    """The content as bytes, with its checksum."""
    text = json.dumps(content, separators=(",", ":")).encode()
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)


def unsealed(content: bytes, path: str) -> dict[str, Any]:
    """The content of sealed bytes. Raises DamagedFileError where the checksum does not match."""
    if not content:
        raise damaged(path, "the file is empty")
    seal = _SEAL.search(content)
    if seal is None:
        raise damaged(path, "the file has no checksum at its end: it was cut or overwritten")
    text = content[: seal.start()] + b"}"
    if zlib.crc32(text) != int(seal[1], 16):
        raise damaged(path, "the file does not fit its checksum")
    found: dict[str, Any] = json.loads(text)
    return found


def read_sealed(files: Files, name: str, make: Callable[[dict[str, Any]], _Read]) -> _Read:
    """The content of a file. Raises DamagedFileError where it is missing, damaged or invalid."""
    path = files.path(name)
    try:
        content = files.read(name)
    except OSError:
        if files.size(name) is not None:
            raise
        # Only the text of Arrow's error says that it is a folder.
        raise damaged(path, "the file is missing") from None
    try:
        return make(unsealed(content, path))
    except DamagedFileError:
        raise
    except ScriptError as error:
        raise damaged(path, f"the file makes no sense: {error.found}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"the file makes no sense ({type(error).__name__}: {error})") from None


def set_aside(files: Files, name: str) -> str:
    """Renames a file that cannot be used, so that nothing reads it and nothing is lost; returns the new name."""
    new, number = f"{name}{ASIDE}", 1
    while files.has(new):
        number += 1
        new = f"{name}{ASIDE}-{number}"
    files.move(name, new)
    return new
