"""Golden files: the text a test expects lies beside it; `pytest --golden` (make golden) writes it anew.

Also how many random cases properties are tried on (`--hypothesis-profile=fuzz` goes on until it is stopped), and an
empty cache directory, so that no test sees this machine's calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", max_examples=100, deadline=None)
settings.register_profile("fuzz", max_examples=10**9, deadline=None, print_blob=True)
settings.load_profile("ci")

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="rewrite the golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares text with golden/<name> beside the test."""
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text == expected, f"{path.name} differs; if the new text is right, run make golden"

    return compare


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's own cache."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("MILLSTREAM_CACHE", str(cache))
    return cache
