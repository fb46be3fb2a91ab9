"""What the documents say is true: their scripts compile, their output is printed, nothing is left undocumented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.compile import compile_script
from millstream.errors import ScriptErrors
from millstream.model import SETTINGS, Settings
from millstream.model.duration import text as length
from millstream.model.functions import BUILTINS, Function
from millstream.model.sizes import text as size
from millstream.sql.stream import OURS

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def scripts() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for number, block in enumerate(blocks(path, "sql"), start=1):
            yield f"{path.name} {number}", block


@pytest.mark.parametrize("script", [script for _, script in scripts()], ids=[name for name, _ in scripts()])
def test_every_script_compiles(script: str) -> None:
    compile_script(script)


def test_the_readme_shows_what_explain_prints() -> None:
    _, shown = blocks(ROOT / "README.md", "text")
    example = str(ROOT / "src/millstream/examples/datacentre.sql")
    assert shown == CliRunner().invoke(main, ["explain", example]).output


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    """A shorter run gives the same lines in the same order, with other numbers."""
    shown, _ = blocks(ROOT / "README.md", "text")
    printed = subprocess.run(
        [sys.executable, "-m", "millstream", "demo", "--seconds", "4", "--directory", tmp_path / "demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
        check=True,
    ).stdout
    assert shape(printed) == shape(shown)
    assert list((tmp_path / "demo/state/results/hot_and_humid").glob("*.parquet"))


def shape(text: str) -> list[str]:
    """The lines without numbers, places and padding; the message comes between batches, wherever that is."""
    found = []
    for line in text.splitlines():
        masked = re.sub(r"\S*/\S*", "PLACE", line)
        masked = re.sub(r"[\d,.]*\d( min \d+ s| min| [kMG]?B| s)?\b", "N", masked)
        masked = re.sub(r"\s+", " ", masked).strip()
        if masked.startswith("batch N"):
            masked = "batch"
        if masked.startswith("half-way") or (masked == "batch" and "batch" in found):
            continue
        found.append(masked)
    assert any(line.startswith("half-way: ") for line in text.splitlines())
    return found


def test_the_registered_function_of_the_manual_is_known_to_a_script() -> None:
    (python,) = blocks(ROOT / "docs/language.md", "python")
    names: dict[str, object] = {}
    exec(python, names)
    function = names["correlated"]
    assert isinstance(function, Function)
    script = blocks(ROOT / "docs/language.md", "sql")[1]
    call = script.replace("T.Value > 30", "correlated(T.Value, H.Value)")
    compile_script(call, functions={"correlated": function})
    with pytest.raises(ScriptErrors, match="no function"):
        compile_script(call)


def test_every_setting_function_and_option_is_documented() -> None:
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    assert [setting.name for setting in SETTINGS] == [field.name for field in fields(Settings)]
    for setting in SETTINGS:
        default = getattr(Settings(), setting.name)
        shown = (
            f"'{default}'"
            if setting.choices
            else f"'{length(default)}'"
            if setting.kind == "duration"
            else f"'{size(default)}'"
            if setting.kind == "size"
            else f"{default:g}"
        )
        assert f"| `{setting.name}` | `{shown}` |" in text
        assert all(f"`'{choice}'`" in text for choice in setting.choices)
    for name in (*BUILTINS, *OURS):
        assert f"`{name}`" in text


def test_the_command_reference_is_what_the_command_says(request: pytest.FixtureRequest) -> None:
    path = ROOT / "docs/commands.md"
    text = "\n".join(["# The command", "", *reference(main, "millstream")]).rstrip() + "\n"
    if request.config.getoption("--golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run make golden"


def reference(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[str]:
    with click.Context(
        command, info_name=name, parent=parent, terminal_width=100, **command.context_settings
    ) as context:
        usage = command.get_help(context)
        yield from [f"## {context.command_path}", "", "```", usage, "```", ""]
        if isinstance(command, click.Group):
            for sub_name, sub_command in sorted(command.commands.items()):
                yield from reference(sub_command, sub_name, context)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    """To a file that is there, and to a heading of it."""
    for link in re.findall(r"\]\(([^):]+)\)", path.read_text(encoding="utf-8")):
        file, _, heading = link.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), link
        assert not heading or heading in anchors(page), link


def anchors(page: Path) -> set[str]:
    """The names GitHub gives to headings: lower case, without marks, blanks as dashes."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_links_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = (ROOT / "docs").glob("*.md")
    assert [page.name for page in pages if f"](docs/{page.name})" not in readme] == []
