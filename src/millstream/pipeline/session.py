"""A Spark session for short batches: it listens on this machine only, and workers run this Python interpreter."""

from __future__ import annotations

import os
import re
import socket
import socketserver
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.errors import ScriptError
from millstream.model.stream import Stream
from millstream.model.types import DataType
from millstream.pipeline.causes import first_cause
from millstream.pipeline.java import find_java, java_options

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_OF_SESSION = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": _MANAGER,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # With any other byte limit Spark adds up the size of the batch after every row: see `limits`.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.metricsEnabled": "false",
    # Recovery reads Spark's offset logs, so they must have the layout that all versions know.
    "spark.sql.streaming.offsetLog.formatVersion": "1",
    "spark.sql.streaming.schemaInference": "false",
    "spark.sql.codegen.wholeStage": "true",
}
FIXED = frozenset(_OF_SESSION)
"""Options that a user cannot set."""
# With these limits texts of 1 MB fit into Spark's 2 GB: two tasks, each with a batch being read and one being sent.
_OF_WIDE_ROWS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 26),
    "spark.sql.parquet.columnarReaderBatchSize": "256",
    "spark.sql.orc.columnarReaderBatchSize": "256",
}
_OF_CONTEXT = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.shuffle.compress": "false",
    # With checksum files, each of Spark's four small files a batch would start two processes to set the files' modes.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
# Other machines cannot reach Spark, unless a cluster is used, whose executors must reach the driver.
_OF_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_HERE = re.compile(r"local(\[.*|-cluster\[.*)?|spark://(127\.[\d.]+|localhost|\[::1\])(:\d+)?")
# Over TCP each batch waits 40 ms for a delayed acknowledgement; a Unix socket does not, and is private to the user.
_BY_FILE = {"spark.python.unix.domain.socket.enabled": "true"}
_LONGEST_FOLDER = 60
_WITH_JAVA = ("spark.jars.packages", "spark.jars")


def make_session(
    name: str, master: str | None = None, options: dict[str, str] | None = None, log: Path | None = None
) -> SparkSession:
    """The existing session, or a new one on all cores of this machine.

    The standard error of Spark and its workers goes to `log`, if one is given.
    """
    active = SparkSession.getActiveSession()
    _check_new(active, options or {})
    if active is None:
        find_java()
        # Spark starts workers by this variable and ignores spark.pyspark.python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = master or f"local[{os.cpu_count() or 1},4]"
        loopback = _OF_LOOPBACK if stays_here(master) else {}
        if loopback:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.appName(name).master(master)
        given = {**_joined(java_options(), options or {}), "spark.pyspark.python": sys.executable}
        for key, value in {**_OF_CONTEXT, **loopback, **_sockets(), **given}.items():
            builder = builder.config(key, value)
        try:
            with _stderr_to(log):
                active = builder.getOrCreate()
        except (PySparkException, Py4JError, OSError) as error:
            raise ScriptError(
                f"Spark does not start: {first_cause(str(error))}",
                "it runs on this machine, or on the cluster that --master names",
                f"Check the master and the options{f', and see {log}' if log else ''}.",
            ) from None
        active.sparkContext.setLogLevel("ERROR" if log else "OFF")
        _forgive_ends(getattr(active.sparkContext, "_accumulatorServer", None))
    return active


def _joined(ours: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Options for Java are added to ours; all others replace them."""
    java = "spark.driver.extraJavaOptions"
    both = [one[java] for one in (ours, options) if java in one]
    return {**ours, **options, **({java: " ".join(both)} if both else {})}


def _check_new(active: SparkSession | None, options: Mapping[str, str]) -> None:
    """Refuses packages that Spark would not see, because it runs already, or its Java does."""
    named = [name for name in _WITH_JAVA if name in options]
    if named and (active is not None or SparkContext._gateway is not None):
        raise ScriptError(
            "Spark runs already in this process" if active else "Java runs already, from an earlier Spark session",
            f"it reads {' and '.join(named)} when it starts",
            "Give the packages to the first session of the process.",
        )


def _forgive_ends(server: socketserver.BaseServer | None) -> None:
    """A signal to all processes may end Spark's Java first. The end of its connection is not worth a traceback."""
    if server is None:
        return
    report = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            report(request, client_address)

    vars(server)["handle_error"] = handle_error


def stays_here(master: str) -> bool:
    """Whether Spark runs on this machine only."""
    return _HERE.fullmatch(master) is not None


def _sockets() -> dict[str, str]:
    """The options to reach workers through Unix sockets, where the system has them and the paths are short enough."""
    return _BY_FILE if hasattr(socket, "AF_UNIX") and len(tempfile.gettempdir()) <= _LONGEST_FOLDER else {}


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Processes started in this context inherit the log as their standard error."""
    if log is None:
        yield
        return
    with log.open("ab") as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def limits(streams: Iterable[Stream]) -> dict[str, str]:
    """Options that keep Spark from running out of memory on wide rows; none where every column has a fixed width."""
    return _OF_WIDE_ROWS if any(_may_be_wide(column.type) for one in streams for column in one.columns) else {}


def _may_be_wide(kind: DataType) -> bool:
    return kind.name in ("STRING", "BINARY", "ARRAY", "MAP") or any(_may_be_wide(part.type) for part in kind.fields)


def session_for(spark: SparkSession, streams: Iterable[Stream] = ()) -> SparkSession:
    """A session beside the user's in the same Spark application, with our settings; the user's do not change."""
    own = spark.newSession()
    for key, value in {**_OF_SESSION, **limits(streams)}.items():
        own.conf.set(key, value)
    return own


def cores_of(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)
