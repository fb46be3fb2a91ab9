"""Jars that benchmarks and tests need, fetched once by Maven into a cache outside the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from millstream.errors import ScriptError

_DELTA = ("delta-spark_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")
_UNITY = ("unitycatalog-client", "unitycatalog-hadoop")
JARS: Mapping[str, tuple[str, ...]] = {
    "broker": ("org.apache.kafka:kafka_2.13:4.1.0",),
    "kafka": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    "delta": (*(f"io.delta:{name}:4.3.0" for name in _DELTA), *(f"io.unitycatalog:{name}:0.5.0" for name in _UNITY)),
}
_WITH_THEIRS = ("broker",)
"""Those that come with everything they depend on; Spark has what the others depend on."""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jars(name: str) -> list[Path]:
    """The jars of this name, from the cache or from Maven. MILLSTREAM_JARS is the folder of the cache."""
    key = hashlib.sha256(" ".join(JARS[name]).encode()).hexdigest()[:8]
    folder = _cache() / f"{name}-{key}"
    if not folder.exists():
        _fetch(name, folder)
    return sorted(folder.glob("*.jar"))


def _cache() -> Path:
    given = os.environ.get("MILLSTREAM_JARS")
    return Path(given) if given else Path.home() / ".cache" / "millstream-jars"


def _fetch(name: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        todo = "Install Maven, or put them there yourself."
        raise ScriptError("there is no mvn", f"Maven fetches the jars of {name} into '{folder}'", todo)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        (Path(place) / "pom.xml").write_text(_project(name), encoding="utf-8")
        target = Path(place) / "lib"
        subprocess.run(
            [
                maven,
                "-q",
                "-B",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={target}",
                "-DincludeScope=runtime",
            ],
            cwd=place,
            check=True,
        )
        if not folder.exists():
            target.rename(folder)


def _project(name: str) -> str:
    """A Maven project that depends on the jars."""
    wanted = ""
    for coordinate in JARS[name]:
        group, artifact, version = coordinate.split(":")
        wanted += f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        wanted += f"<version>{version}</version>{'' if name in _WITH_THEIRS else _ALONE}</dependency>\n"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>jars</groupId>'
        f"<artifactId>{name}</artifactId><version>1</version><dependencies>{wanted}</dependencies></project>"
    )
