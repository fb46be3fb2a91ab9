"""Numbers as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.cli.words import bar, counted, near, seconds, size


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0.0, "0.00 s"),
        (0.614, "0.61 s"),
        (9.99, "9.99 s"),
        (12.3, "12 s"),
        (59.7, "1 min"),
        (312, "5 min 12 s"),
        (3_600, "1 h"),
        (3_660, "1 h 1 min"),
        (2 * 86_400 + 3_600, "2 d 1 h"),
        (20_000 * 86_400, "20,000 d"),
    ],
)
def test_seconds(length: float, text: str) -> None:
    assert seconds(length) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1 kB"), (999_600, "1 MB"), (9_812_345, "9.81 MB"), (4.2e12, "4.2 TB")],
)
def test_sizes(nbytes: float, text: str) -> None:
    assert size(nbytes) == text


@pytest.mark.parametrize(
    ("number", "word", "text"),
    [(1, "query", "1 query"), (2, "query", "2 queries"), (1_000, "batch", "1,000 batches"), (0, "unit", "0 units")],
)
def test_counted(number: int, word: str, text: str) -> None:
    assert counted(number, word) == text


def test_bars_are_true_to_an_eighth_and_never_hide_something() -> None:
    assert bar(10, 10, 4) == "████"
    assert bar(5, 10, 4) == "██"
    assert bar(1, 32, 4) == "▏"
    assert bar(1, 10**9, 4) == "▏"
    assert bar(0, 10, 4) == bar(3, 0, 4) == ""


def test_places_are_named_from_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert near(tmp_path / "state" / "s") == "state/s"
    assert near(tmp_path.parent) == str(tmp_path.parent)
    assert near("s3://bucket/s") == "s3://bucket/s"
    assert near("kafka sink") == "kafka sink"
