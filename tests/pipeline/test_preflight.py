"""What is wrong with a script is said before Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from begun import FROM_FILES, SELECT, query
from millstream.compile import compile_script
from millstream.errors import MillstreamError, ScriptError
from millstream.model.known_options import check_option
from millstream.pipeline import manifest as manifests
from millstream.pipeline.control import Control
from millstream.pipeline.directory import Directory
from millstream.pipeline.manifest import Manifest
from millstream.pipeline.preflight import preflight, unchecked, wrong_ends
from millstream.pipeline.session import make_session

SCRIPT = FROM_FILES + query("q")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in "AB":
        (tmp_path / "in" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_good_script_leaves_nothing_behind(here: Path) -> None:
    preflight(SCRIPT, Directory.at("state"), {})
    assert sorted(path.name for path in here.iterdir()) == ["in"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("in/A", "in/C", r"line 2, column 15: stream A reads '.*/in/C', which does not exist; .* Make the folder"),
        (", path = 'in/B'", "", "line 3, column 15: stream B has no path; a stream of parquet files is read from"),
        ("in/A", ".", "line 2, column 15: the pipeline's directory '.*/state' lies where stream A reads; .* Choose"),
        ("A.k, A.s", "A.k, A.t", 'no column "t" in A'),
        ("QUERY q", "QUERY q WITH (path = 'in/A')", "q writes to '.*/in/A', where stream A reads"),
        ("QUERY q", "QUERY q WITH (path = 'state/x')", "inside the pipeline's own directory"),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_wrong_is_told_at_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(MillstreamError, match=message):
        preflight(SCRIPT.replace(old, new), Directory.at("state"), {})


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("path", ["in/[A]", "in/*", "s3://bucket/none"])
def test_patterns_and_addresses_are_left_to_spark(path: str) -> None:
    preflight(SCRIPT.replace("in/A", path), Directory.at("state"), {})


@pytest.mark.usefixtures("here")
def test_a_directory_in_use_is_told_first() -> None:
    directory = Directory.at("state")
    directory.make()
    with directory.locked(), pytest.raises(ScriptError, match=r"a pipeline is running here \(process \d+\)"):
        preflight("CREATE nonsense", Directory.at("state"), {})


@pytest.mark.usefixtures("here")
def test_the_streams_of_a_directory_stay() -> None:
    directory = Directory.at("state")
    directory.make()
    Control(directory=directory).begin(SCRIPT, 1)
    manifests.commit(directory.files.below("manifest"), Manifest(batch=1))
    preflight(SCRIPT.replace("1 MINUTE", "2 MINUTES"), directory, {})
    with pytest.raises(ScriptError, match=r"state: stream A has changed: columns was .*; .* Use a new directory"):
        preflight(SCRIPT.replace("k INT, s STRING", "k INT, s STRING, t INT", 1), directory, {})


@pytest.mark.usefixtures("here")
def test_a_start_that_failed_does_not_refuse_other_streams() -> None:
    """As long as no batch is committed: then statements and Spark's notes are forgotten, and changes that wait stay."""
    directory = Directory.at("state")
    directory.make()
    Control(directory=directory).begin(SCRIPT, 1)
    directory.files.make("spark/sources/0")
    directory.files.write("spark/sources/0/0", b"v1")
    other = SCRIPT.replace("in/A", "in/B/../A")
    preflight(other, directory, {})
    said: list[str] = []
    control = Control(directory=directory, tell=said.append)
    assert control.registry.count() == 1
    ticket = control.registry.ask("drop", "q")
    control.check(other)
    assert control.begins_anew
    control.forget()
    assert (control.registry.count(), control.registry.is_waiting(ticket)) == (0, True)
    assert directory.files.folders("spark") == []
    assert said == ["the last start ended before its first batch; the pipeline begins anew"]
    control.begin(other, 1)
    assert control.registry.in_force().script == other


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("in/A/rows.csv", r"reads '.*/in/A/rows.csv', which is a file; .* Use path = '.*/in/A', and pathGlobFilter"),
        ("in/C", r"reads parquet files, and those in '.*/in/C' are named as csv files; .* Use format = 'csv'"),
        ("nowhere/*", r"reads '.*/nowhere', which does not exist"),
    ],
)
def test_files_that_are_no_folder_or_of_another_format(here: Path, path: str, message: str) -> None:
    (here / "in/C").mkdir()
    for name in ("in/A/rows.csv", "in/C/rows.csv", "in/C/more.csv.gz", "in/C/_mark", "in/A/notes"):
        (here / name).write_text("")
    preflight(SCRIPT, Directory.at("state"), {})
    with pytest.raises(ScriptError, match=message):
        preflight(SCRIPT.replace("in/A", path), Directory.at("state"), {})


def test_results_do_not_go_to_a_file(here: Path) -> None:
    (here / "out").write_text("")
    with pytest.raises(ScriptError, match=r"q writes to '.*/out', which is a file; a path names a folder"):
        preflight(SCRIPT.replace("QUERY q", "QUERY q WITH (path = 'out')"), Directory.at("state"), {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format = 'jsn', path = 'x'", "stream A has format = 'jsn'; formats of Spark's are .* Did you mean \"json\""),
        ("format = 'csv'", "stream A has no path; a stream of csv files is read from a folder. Add path"),
        ("path = ' '", "stream A has path = ''; a path names a folder. Name the folder."),
        ("path = 'x', epoch = 'seccond'", 'epoch = .seccond.; .* seconds, milliseconds, .*Did you mean "seconds"'),
        ("path = 'x', value = 'xml'", "value = 'xml'; value = 'json' reads the column value as JSON"),
        ("format = 'kafka', subscribe = 't'", "stream A names no servers; Kafka is found by kafka.bootstrap.servers"),
        ("format = 'kafka', kafka.bootstrap.servers = 'h:9'", "stream A names no topic; subscribe = '...'"),
        ("format = 'com.example.Source'", None),
        ("format = 'KAFKA', Assign = '{}', kafka.bootstrap.servers = 'h:9'", None),
        ("format = 'rate'", None),
        ("rate = 9", None),
    ],
)
def test_options_of_streams(options: str, message: str | None) -> None:
    script = f"CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', {options});"
    found = wrong_ends(compile_script(script).script)
    assert len(found) == (message is not None)
    for error in found:
        assert error.where.line == 1
        with pytest.raises(ScriptError, match=message):
            raise error


def test_all_that_is_wrong_comes_at_once() -> None:
    script = FROM_FILES.replace("path = 'in/A'", "format = 'csv'").replace("path = 'in/B'", "value = 'x'")
    script += query("q", "compression = 'zip'") + query("r", "results = 'mine'", SELECT)
    assert len(wrong_ends(compile_script(script).script)) == 4


def test_modes_that_spark_would_take_for_permissive() -> None:
    script = "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', format = 'csv', path = 'x', mode = '{}');"
    assert wrong_ends(compile_script(script.format("failfast")).script) == []
    (error,) = wrong_ends(compile_script(script.format("FAILFSAT")).script)
    assert "mode = 'FAILFSAT'; it is PERMISSIVE or DROPMALFORMED or FAILFAST. Did you mean" in str(error)


def test_a_misspelt_name_of_kafkas_servers() -> None:
    script = (
        "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', format = 'kafka', kafka.boostrap.servers = 'h:9');"
    )
    (error,) = wrong_ends(compile_script(script).script)
    assert str(error).endswith('Did you mean it by "kafka.boostrap.servers"?')


def test_which_names_are_handed_on() -> None:
    script = compile_script(
        "CREATE STREAM A (k INT, Ts TIMESTAMP) WITH (time = 'Ts', format = 'Mine', depth = 3, path = 'x');"
        "CREATE STREAM B (k INT, Ts TIMESTAMP) WITH (time = 'Ts', path = 'x', maxFilesPerTrigger = 1);"
        "CREATE QUERY q WITH (format = 'pigeon', coop = 'x') AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 SECOND;"
    ).script
    assert list(unchecked(script)) == [
        "stream A: handed on to mine unchecked: depth",
        "query q: handed on to pigeon unchecked: coop",
    ]


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        ("csv", "catalyst.csv.CSVOptions"),
        ("json", "catalyst.json.JSONOptions"),
        ("xml", "catalyst.xml.XmlOptions"),
        ("avro", "avro.AvroOptions"),
        ("parquet", "execution.datasources.parquet.ParquetOptions"),
        ("orc", "execution.datasources.orc.OrcOptions"),
        ("text", "execution.datasources.text.TextOptions"),
        ("csv", "execution.datasources.FileIndexOptions"),
    ],
)
def test_the_options_of_files_are_those_that_spark_lists(kind: str, listed: str) -> None:
    jvm: Any = make_session("options")._jvm
    module = jvm.java.lang.Class.forName(f"org.apache.spark.sql.{listed}$").getField("MODULE$").get(None)
    names = module.getAllOptions().mkString(" ").split()
    assert len(names) > 2
    for name in names:
        check_option(name, kind, read=True)
