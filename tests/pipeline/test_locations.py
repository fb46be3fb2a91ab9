"""Where paths lead: from the folder a directory was begun in, to no file of our own, and never by chance a pattern."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import ScriptError
from millstream.pipeline.locations import check_apart, is_address, is_read, literal, located, looks_like_pattern, placed


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("in", "/base/in"),
        ("./in/", "/base/in"),
        ("/in", "/in"),
        ("file:/in", "/in"),
        ("file:///in", "/in"),
        ("s3://bucket/in", "s3://bucket/in"),
        ("hdfs:/in", "hdfs:/in"),
        ("c:in", "/base/c:in"),
    ],
)
def test_a_relative_path_counts_from_the_base(path: str, place: str) -> None:
    assert placed(path, "/base") == place
    assert placed(placed(path, "/base"), "/elsewhere") == place, "once placed it stays"
    assert is_address(path) == path.startswith(("s3:", "hdfs:", "file:"))
    assert located((("Path", path), ("header", path)), "/base") == (("Path", place), ("header", path))


@pytest.mark.parametrize(
    ("read", "folder", "taken"),
    [
        ("/in", "/in", True),
        ("/in/", "/in/a/b", True),
        ("/in/a", "/in", False),
        ("/in", "/inn", False),
        ("/i*", "/in/a", True),
        ("/in/*/b", "/in/a", False),
        ("/in/[ab]", "/in/b/c", True),
        ("", "/in", False),
    ],
)
def test_whether_a_stream_takes_up_the_files_of_a_folder(read: str, folder: str, taken: bool) -> None:
    options = (("PATH", read), ("format", "json"))
    assert is_read(folder, options) == taken
    assert not is_read(folder, options[1:])
    if taken:
        with pytest.raises(ScriptError, match=f"directory '{folder}' lies where stream S reads; state, .* Choose"):
            check_apart("S", options, folder)
    else:
        check_apart("S", options, folder)


@pytest.mark.parametrize("name", ["a[1]", "a{b,c}", "a*", "a?", "a\\b"])
def test_a_folder_whose_name_is_a_pattern_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    options = (("path", str(folder)), ("recursiveFileLookup", "false"), ("header", "true"))
    assert looks_like_pattern(name)
    assert literal(options) == options, "nothing of this name is there: it is a pattern"
    folder.mkdir()
    found = dict(literal(options))
    assert found["path"].replace("\\\\", "\0").replace("\\", "").replace("\0", "\\") == str(folder)
    assert found == {"header": "true", "path": found["path"], "recursiveFileLookup": "true"}
    (folder / "below").mkdir()
    with pytest.raises(ScriptError, match=r"has folders in it, and a name with one of .* Rename the folder"):
        literal(options)


def test_a_plain_name_and_an_address_stay(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for path in (str(tmp_path / "plain"), "s3://bucket/a*"):
        assert literal((("path", path),)) == (("path", path),)
