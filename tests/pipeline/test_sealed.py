"""A file that is not whole does not read as something else: it does not read at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.files import DamagedFileError, Files
from millstream.errors import ScriptError
from millstream.pipeline.sealed import read_sealed, sealed, set_aside, unsealed

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda one: st.lists(one, max_size=3), max_leaves=4
)
contents = st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=4)


@given(contents)
def test_what_was_sealed_comes_back(content: dict[str, Any]) -> None:
    assert unsealed(sealed(content), "f") == content


@given(contents, st.data())
def test_a_byte_that_changed_a_cut_and_an_addition_are_noticed(content: dict[str, Any], data: st.DataObject) -> None:
    whole = sealed(content)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.integers(1, 255))
    changed = whole[:at] + bytes([whole[at] ^ other]) + whole[at + 1 :]
    for damaged in (changed, whole[:at], whole + b" ", whole[: at + 1] + whole[at:]):
        with pytest.raises(DamagedFileError):
            unsealed(damaged, "f")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "the file is missing"),
        (b"", "the file is empty"),
        (b'{"a":1}\n', "no checksum at its end: it was cut or overwritten"),
        (sealed({"a": 1}).replace(b"1", b"2", 1), "does not fit its checksum"),
        (sealed({"b": 1}), r"makes no sense \(KeyError: 'a'\)"),
        (sealed({"a": "x"}), r"makes no sense \(ValueError"),
        (sealed({"a": 7}), "makes no sense: a = 7"),
    ],
)
def test_why_a_file_does_not_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    def make(saved: dict[str, Any]) -> int:
        if saved["a"] == 7:
            raise ScriptError("a = 7", "it is small", "Mend it.")
        return int(saved["a"])

    files = Files.at(tmp_path)
    if content is not None:
        (tmp_path / "f").write_bytes(content)
    with pytest.raises(DamagedFileError, match=rf"{tmp_path}/f: .*{why}"):
        read_sealed(files, "f", make)
    (tmp_path / "f").write_bytes(sealed({"a": 3}))
    assert read_sealed(files, "f", make) == 3


def test_a_folder_in_its_place_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(DamagedFileError, match="the file is missing"):
        read_sealed(Files.at(tmp_path), "f", dict)


def test_what_is_set_aside_overwrites_nothing(tmp_path: Path) -> None:
    files = Files.at(tmp_path)
    asides = []
    for content in ("one", "two", "three"):
        (tmp_path / "f").write_text(content)
        asides.append(set_aside(files, "f"))
    assert asides == ["f.damaged", "f.damaged-2", "f.damaged-3"]
    assert [(tmp_path / name).read_text() for name in asides] == ["one", "two", "three"]
    assert not (tmp_path / "f").exists()
