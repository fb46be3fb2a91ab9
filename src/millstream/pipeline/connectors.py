"""Connectors: the Spark packages that formats need, with the versions that are known to work together.

`--packages`, `--jars` and `--conf` of `millstream run`, and the same in Python, become options of the Spark session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import version as version_of
from pathlib import Path

from millstream.errors import ScriptError, did_you_mean, listing
from millstream.pipeline.locations import is_address

_SCALA = "_2.13"
_PYSPARK = version_of("pyspark")


@dataclass(frozen=True, slots=True)
class Connector:
    """A package: `works` maps a version of pyspark to the version of the package that was run with it.

    `fails` says what was found where none works; `conf` are the Spark options that it needs.
    """

    package: str
    works: Mapping[str, str]
    _: KW_ONLY
    fails: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def artifact(self) -> str:
        return self.package.partition(":")[2].removesuffix(_SCALA)

    def coordinate(self, version: str) -> str:
        """The package for this pyspark. Raises ScriptError where none is known to work."""
        if version not in self.works:
            best = max(self.works)
            raise ScriptError(
                f"no version of {self.package} is known to work with pyspark {version}"
                + (f": {self.fails[version]}" if version in self.fails else ""),
                f"known to work is {self.works[best]} with pyspark {best}",
                f"Run `pip install pyspark=={best}`, or name group:artifact:version yourself.",
            )
        return f"{self.package}:{self.works[version]}"


CONNECTORS: Mapping[str, Connector] = {
    "kafka": Connector(f"org.apache.spark:spark-sql-kafka-0-10{_SCALA}", {"4.2.0": "4.2.0", "4.3.0": "4.2.0"}),
    "delta": Connector(
        f"io.delta:delta-spark{_SCALA}",
        {"4.2.0": "4.3.0"},
        fails={"4.3.0": "Delta 4.3.0 writes once, then fails with NoSuchMethodError"},
        conf={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
}
"""The known combinations: every message and `--packages NAME` go by this table."""


def session_options(
    packages: Iterable[str] = (),
    jars: Iterable[str] = (),
    conf: Mapping[str, str] | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    version: str = _PYSPARK,
) -> dict[str, str]:
    """The options of a Spark session with these packages and jars. `conf` has the last word."""
    names, files = _parts(packages), _parts(jars)
    _check_conf(conf or {})
    found: dict[str, str] = {}
    coordinates = [_coordinate(name, version, tell) for name in names]
    for connector in CONNECTORS.values():
        if any(f"{connector.artifact}_" in one for one in (*coordinates, *files)):
            found |= connector.conf
    if coordinates:
        found["spark.jars.packages"] = ",".join(coordinates)
    if files:
        found["spark.jars"] = ",".join(map(_jar, files))
    return found | dict(conf or {})


def missing_package(kind: str, version: str = _PYSPARK) -> ScriptError | None:
    """The error for a format whose package Spark does not have; None for a format of no known package."""
    connector = CONNECTORS.get(kind)
    if connector is None:
        return None
    known = connector.works.get(version)
    if known is None:
        best = max(connector.works)
        return ScriptError(
            f"Spark has no package for format '{kind}', and none is known to work with pyspark {version}",
            f"known to work is {connector.package}:{connector.works[best]} with pyspark {best}",
            f"Run `pip install pyspark=={best}`, and start with --packages {kind}.",
        )
    return ScriptError(
        f"Spark has no package for format '{kind}'",
        f"with pyspark {version} it is {connector.package}:{known}",
        f"Start with `millstream run FILE --packages {kind}`, or Pipeline(..., packages=['{kind}']).",
    )


def _parts(given: Iterable[str]) -> list[str]:
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _coordinate(name: str, version: str, tell: Callable[[str], None]) -> str:
    if name.lower() in CONNECTORS:
        return CONNECTORS[name.lower()].coordinate(version)
    parts = name.split(":")
    if len(parts) != 3 or not all(parts):
        raise ScriptError(
            f"--packages {name}",
            f"a package is {listing(CONNECTORS)} or group:artifact:version",
            did_you_mean(name, CONNECTORS, "Write for example --packages kafka."),
        )
    for kind, connector in CONNECTORS.items():
        artifact, _, scala = parts[1].rpartition("_")
        if artifact != connector.artifact:
            continue
        known = connector.works.get(version)
        if f"_{scala}" != _SCALA:
            raise ScriptError(
                f"--packages {name} is made for Scala {scala}",
                f"pyspark {version} has Scala {_SCALA[1:]}",
                f"Use --packages {kind}." if known else f"Use {connector.package}.",
            )
        if parts[2] != known:
            tried = f"{known} was" if known else f"none is known to work ({connector.fails.get(version, 'not tried')})"
            tell(f"{parts[1]} {parts[2]} was not tried with pyspark {version}; {tried}")
    return name


def _jar(path: str) -> str:
    if is_address(path):
        return path
    if not Path(path).is_file():
        raise ScriptError(f"--jars {path}", "there is no such file", "Check the path.")
    return str(Path(path).absolute())


def _check_conf(conf: Mapping[str, str]) -> None:
    from millstream.pipeline.session import FIXED

    for name in conf:
        if not name.startswith("spark."):
            raise ScriptError(f"--conf {name}", "Spark's options begin with spark.", "Correct the name.")
        if name in FIXED:
            raise ScriptError(f"--conf {name}", "batches and recovery rely on the value it has here", "Leave it out.")
