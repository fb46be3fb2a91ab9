"""Every piece of Python in the documents runs, page by page, as somebody would who types it in from the top."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^( *)```([\w-]*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"", "text", "sql", "python", "json", "sh"}
"""What fences may be called, so that none is Python, or a script, by another name that nothing looks at."""


def fences(page: Path) -> list[tuple[str, str]]:
    return [(language, code) for _, language, code in _FENCE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fence_has_a_known_language(page: Path) -> None:
    assert {language for language, _ in fences(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_without_a_language_are_no_python(page: Path) -> None:
    for language, code in fences(page):
        assert language == "python" or not re.search(r"^(import|from \w+ import|def) ", code, re.MULTILINE), code


WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, _ in fences(page))]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path, folder: Path) -> None:
    assert folder == Path.cwd()
    names: dict[str, object] = {"__name__": "page"}
    for language, code in fences(page):
        if language == "python":
            # Spark reads relative paths from where it was started, which here was in another test.
            exec(compile(code.replace('.parquet("', f'.parquet("{folder}/'), page.name, "exec"), names)
