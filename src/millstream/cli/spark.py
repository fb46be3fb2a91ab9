"""Options for the Spark that a command starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import click

from millstream.cli.script import Command
from millstream.errors import ScriptError


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The master, and what Spark starts with."""

    master: str | None = None
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


def spark_options(command: Command) -> Command:
    for option in (
        click.option("--conf", multiple=True, metavar="NAME=VALUE", help="An option of Spark."),
        click.option("--jars", multiple=True, metavar="FILES", help="Jars for Spark, separated by commas."),
        click.option(
            "--packages",
            multiple=True,
            metavar="NAMES",
            help="Packages for Spark, which it downloads: kafka, delta, or group:artifact:version.",
        ),
    ):
        command = option(command)
    return command


def read_conf(pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            valid = "the form is --conf NAME=VALUE"
            raise ScriptError(f"--conf {pair}", valid, "Write for example --conf spark.driver.memory=4g.")
        if name in found:
            raise ScriptError(f"--conf {name} stands twice", "each option is given once", "Remove one of them.")
        found[name] = value
    return found
