"""`millstream run`: a script on Spark until it is stopped, or until everything that is there has been processed."""

from __future__ import annotations

import click

from millstream.cli.script import compile_text, read_functions, read_script, read_settings, script_options
from millstream.cli.spark import SparkOptions, read_conf, spark_options
from millstream.plan.calibration import load


@click.command()
@script_options
@click.option("--directory", metavar="DIR", help="Where state and results are kept.  [default: state/<name of FILE>]")
@click.option("--drain", is_flag=True, help="Process what is there, finish deferred work, and stop.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON per batch, and a last one with the summary.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: all cores of this machine]")
@spark_options
def run(
    file: str,
    functions: tuple[str, ...],
    settings: tuple[str, ...],
    directory: str | None,
    drain: bool,
    as_json: bool,
    master: str | None,
    packages: tuple[str, ...],
    jars: tuple[str, ...],
    conf: tuple[str, ...],
) -> None:
    """Run every query of FILE on Spark, shared. SIGINT and SIGTERM finish the batch and stop.

    Started again in the same directory it goes on where it stopped; what has changed in FILE takes effect.
    """
    text, known, given = read_script(file), read_functions(functions), read_settings(settings)
    compile_text(text, file, known, given, load())
    from millstream.cli.running import run_script

    spark = SparkOptions(master, packages, jars, read_conf(conf))
    run_script(file, text, directory, known, given, drain=drain, as_json=as_json, spark=spark)
