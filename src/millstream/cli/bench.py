"""`millstream bench`: benchmarks against peers and the papers' experiments.

The lab is imported only when one of these commands runs: it needs packages that the product does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Measure Millstream, against peers and against the papers."""


@bench.command()
def plan() -> None:
    """How long planning and checking take."""
    from millstream.lab.bench.plan import report

    _show(report())


@bench.command()
@click.option("--seconds", type=int, default=1000, show_default=True, help="Seconds of event time, 1,000 rows each.")
def kernel(seconds: int) -> None:
    """The engine on one core: one window, seven windows, DuckDB, small batches."""
    from millstream.lab.bench.kernel import report

    _show(report(seconds))


@bench.command()
@click.option("--rounds", type=int, default=7, show_default=True, help="Turns each way takes.")
def tricks(rounds: int) -> None:
    """What each trick of the engine brings, against the plain way to the same result."""
    from millstream.lab.bench import tricks as bench_tricks

    _show(bench_tricks.report(rounds))


@bench.command()
@click.option("--rounds", type=int, default=3, show_default=True, help="Turns each way takes.")
def slicing(rounds: int) -> None:
    """Whether the slices the planner calls cheapest are the fastest on the engine."""
    from millstream.lab.bench.slicing import report
    from millstream.plan.calibration import load

    _show(report(rounds, load()))


@bench.command("hot-key")
@click.option("--rows", type=int, default=30_000, show_default=True, help="Rows of one key on each side.")
def hot_key(rows: int) -> None:
    """All pairs of one key, counted: how much memory they take."""
    from millstream.lab.bench import engine

    _show(engine.hot_key(rows))


@bench.command()
@click.option("--most", type=int, default=10_000_000, show_default=True, help="Rows of the largest window.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Also plot it here (needs matplotlib).")
def scaling(most: int, png: Path | None) -> None:
    """Time per input row as the window grows, at a fixed number of matches."""
    from millstream.lab.bench import engine

    _show(engine.scaling(most, png))


@bench.command()
@click.option("--runnable", type=int, default=1_000, show_default=True, help="Segments that wait to probe.")
def choosing(runnable: int) -> None:
    """What share of run time it takes to choose the next unit, by policy."""
    from millstream.lab.bench.choosing import report

    _show(report(runnable))


_out = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("bench"),
    show_default=True,
    help="Where CSV files and pictures go.",
)


@bench.command()
@click.option("--seconds", type=int, default=1000, show_default=True, help="Seconds of event time, 1,000 rows each.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@click.option(
    "--stores",
    default="memory,rocksdb",
    show_default=True,
    help="State stores of the native joins: memory, rocksdb, rocksdb-bounded.",
)
@click.option("--skip", default="", help="Peers to leave out: separate, filtered, one.")
@click.option("--place", type=click.Path(path_type=Path), help="A folder to work in; needs up to 10 GB.")
def peers(seconds: int, batches: int, stores: str, skip: str, place: Path | None) -> None:
    """Seven windows as native Spark joins and on Millstream, with a check of every row."""
    from millstream.lab.bench.native_joins import STORES
    from millstream.lab.bench.peers import KINDS, report

    kept = [_one_of(name, STORES, "store") for name in _names(stores)]
    left = [_one_of(name, KINDS, "peer") for name in _names(skip)]
    _show(report(seconds, batches, kept, left, place, _tell))


_PLACE = click.option("--place", type=click.Path(path_type=Path), help="A folder to work in.")


@bench.command()
@click.option("--seconds", type=int, default=1000, show_default=True, help="Seconds of event time, 1,000 rows each.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@_PLACE
def kafka(seconds: int, batches: int, place: Path | None) -> None:
    """Seven windows from two Kafka topics, against seven native Spark joins from the same topics."""
    from millstream.lab.bench.kafka import report

    _show(report(seconds, batches, place, _tell))


@bench.command()
@click.option("--seconds", type=int, default=1000, show_default=True, help="Seconds of event time, 1,000 rows each.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Turns each takes.")
@_PLACE
def fifty(seconds: int, batches: int, rounds: int, place: Path | None) -> None:
    """Fifty queries, each with a window and a rare condition of its own, against the widest alone."""
    from millstream.lab.bench import queries

    _show(queries.fifty(seconds, batches, rounds=rounds, place=place, tell=_tell))


@bench.command()
@click.option("--count", type=int, default=100, show_default=True, help="Queries that come and go.")
@_PLACE
def churn(count: int, place: Path | None) -> None:
    """A hundred queries added and dropped while the pipeline runs, with a check of every row."""
    from millstream.lab.bench import queries

    _show(queries.churn(count=count, place=place, tell=_tell))


@bench.command()
@_PLACE
def overhead(place: Path | None) -> None:
    """What a batch costs that has next to nothing in it, part by part."""
    from millstream.lab.bench.overhead import report

    _show(report(place=place))


@bench.command()
@click.option("--rows", type=int, default=1_000_000, show_default=True, help="Rows of state when it is killed.")
@_PLACE
def recovery(rows: int, place: Path | None) -> None:
    """Seconds from the start of a process to its first commit, after kill -9."""
    from millstream.lab.bench.recovery import report

    _show(report(rows, place, _tell))


@bench.command()
@click.option("--seconds", type=float, default=60, show_default=True, help="How long rows come too fast.")
@_PLACE
def overload(seconds: float, place: Path | None) -> None:
    """Rows at three times the service rate: what is left of the results when keys are shed, and when rows are."""
    from millstream.lab.bench.overload import Load, report

    _show(report(_tell, Load(seconds=seconds), place))


@bench.command()
@click.option("--rounds", type=int, default=2, show_default=True, help="Turns each way takes.")
@_PLACE
def replan(rounds: int, place: Path | None) -> None:
    """Hints that are ten times wrong: how fast it is once the plan has been chosen again."""
    from millstream.lab.bench.replan import report

    _show(report(_tell, rounds, place))


@bench.command()
@click.option("--batches", type=int, default=60, show_default=True, help="Batches of each size.")
@_PLACE
def measuring(batches: int, place: Path | None) -> None:
    """What share of run time it takes to measure rates, keys, selectivities and costs."""
    from millstream.lab.bench.measuring import report

    _show(report(_tell, batches, place))


@bench.command()
def burst() -> None:
    """A tenfold burst of 30 s on Spark: how long each window waits under LWO and under Greedy."""
    from millstream.lab.bench.burst import report

    _show(report(_tell))


@bench.command()
@click.option("--rows", type=int, default=100_000, show_default=True, help="Rows of each stream, 100 a second.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@click.option("--native/--no-native", default=True, show_default=True, help="Whether to run native Spark joins too.")
@_PLACE
def pools(rows: int, batches: int, native: bool, place: Path | None) -> None:
    """The state of eight queries over four streams: in pools, per chain, and as native Spark joins."""
    from millstream.lab.bench.pools import report

    _show(report(rows, batches, native=native, place=place, tell=_tell))


@bench.command("three-way")
@click.option("--rows", type=int, default=300_000, show_default=True, help="Rows of each stream, 200 a second.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Turns each takes, except native joins.")
@click.option("--native/--no-native", default=True, show_default=True, help="Whether to run native Spark joins too.")
@_PLACE
def three_way(rows: int, batches: int, rounds: int, native: bool, place: Path | None) -> None:
    """Joins of two and three streams on Millstream, as native Spark joins and in DuckDB, every row checked."""
    from millstream.lab.bench.three_way import report

    _show(report(rows, batches, rounds, native=native, place=place, tell=_tell))


@bench.command()
@click.option("--rows", type=int, default=400_000, show_default=True, help="Rows of each of two streams.")
@click.option("--batches", type=int, default=20, show_default=True, help="Batches the rows come in.")
@click.option("--rounds", type=int, default=2, show_default=True, help="Turns that runs with idle groups take.")
@_PLACE
def memory(rows: int, batches: int, rounds: int, place: Path | None) -> None:
    """State ten times the limit: the workers' memory, throughput where the working set fits, every row checked."""
    from millstream.lab.bench.memory import report

    _show(report(rows, batches, rounds, place, _tell))


@bench.command()
@click.option("--seconds", type=int, default=600, show_default=True, help="Seconds of event time, 1,000 rows each.")
@click.option("--batches", type=int, default=30, show_default=True, help="Batches the rows come in.")
@click.option("--native/--no-native", default=True, show_default=True, help="Whether to run a native Spark join too.")
@_PLACE
def rescale(seconds: int, batches: int, native: bool, place: Path | None) -> None:
    """Fifty queries on 2, then 6, then 3 slots without a restart, and what a native Spark join needs for that."""
    from millstream.lab.bench.rescale import report

    _show(report(seconds, batches, place=place, tell=_tell, native=native))


@bench.command("op-sched-sql")
@click.option("--rate", type=float, default=8_000, show_default=True, help="Rows a second of event time, all streams.")
@click.option("--seconds", type=int, default=60, show_default=True, help="Seconds of event time, a file each.")
@click.option("--every", type=float, default=0.5, show_default=True, help="Seconds by the clock from file to file.")
@click.option("--budget", type=float, default=50, show_default=True, help="Milliseconds a slot works in a batch.")
@click.option("--policies", default="", help="Policies to run, separated by commas; those of op-sched if left out.")
@_PLACE
def op_sched_sql(rate: float, seconds: int, every: float, budget: float, policies: str, place: Path | None) -> None:
    """Sixteen queries over five streams on Spark: response and queue memory under each policy, every row checked."""
    from millstream.lab.bench.op_sched_sql import POLICIES, report
    from millstream.model.settings import POLICY_NAMES

    chosen = [_one_of(name, POLICY_NAMES, "policy") for name in _names(policies)] or POLICIES
    _show(report(rate, seconds, every=every, budget=budget, policies=chosen, place=place, tell=_tell))


@bench.group()
def paper() -> None:
    """The papers' experiments, one command each."""


@paper.command("state-slice")
@click.option("--figure", type=click.Choice(["11", "17", "18", "19"]), help="One figure; all if left out.")
def state_slice(figure: str | None) -> None:
    """State-Slice: savings by equation 4 (Figure 11), strategies on the engine (17, 18), CPU-optimal chains (19)."""
    from millstream.lab.papers.state_slice import model, run

    def figure_19() -> Iterator[str]:
        yield from model.figure_19()
        yield ""
        yield from run.figure_19()

    figures = {
        "11": model.figure_11,
        "17": run.figure_17,
        "18": run.figure_18,
        "19": figure_19,
    }
    _figures(figure, figures, {})


@paper.command("shared-join")
@click.option("--figure", type=click.Choice(["3", "5", "7", "8", "9", "10"]), help="One figure; all if left out.")
@click.option("--tuples", type=int, default=1_000, show_default=True, help="New tuples per run on the engine.")
@click.option(
    "--clock",
    type=click.Choice(["counted", "cpu"]),
    default="counted",
    show_default=True,
    help="Time by the work that has been done, at costs measured before; or by CPU time as it is.",
)
@_out
def shared_join(figure: str | None, tuples: int, clock: str, out: Path) -> None:
    """Shared window joins: LWO, SWF and Greedy by the equations and on the engine."""
    from millstream.lab.papers.shared_join import figures

    _figures(
        figure,
        {
            "3": figures.figure_3,
            "5": figures.figure_5,
            "7": lambda: figures.figures_7_and_8(out, tuples, clock),
            "9": lambda: figures.figure_9(out, tuples, clock),
            "10": lambda: figures.figure_10(out, tuples, clock),
        },
        {"8": "7"},
    )


@paper.command("op-sched")
@click.option("--figure", type=click.Choice(["2", "3", "4"]), help="One figure; all, and the tables, if left out.")
@click.option("--seconds", type=float, default=24.0, show_default=True, help="Length of the streams.")
@_out
def op_sched(figure: str | None, seconds: float, out: Path) -> None:
    """Operator scheduling: Tables 1 and 2, and Figures 2 to 4 on 116 operators, real and simulated."""
    from millstream.lab.papers.op_sched import figures, tables

    shown = {"tables": tables.report, "2": lambda: figures.report(out, seconds)}
    _figures(figure, shown, {"3": "2", "4": "2"})


@paper.command("state-adapt")
@click.option(
    "--figure",
    type=click.Choice(["6", "7", "9", "10", "11", "12", "14", "15", "16", "17", "20", "21"]),
    help="One figure; all if left out.",
)
@click.option("--tuples", type=int, default=100_000, show_default=True, help="Tuples of each of the three streams.")
@click.option("--rounds", type=int, default=3, show_default=True, help="Turns each run of Figures 14 to 16 takes.")
@_out
def state_adapt(figure: str | None, tuples: int, rounds: int, out: Path) -> None:
    """Adapting state: several machines (6, 7), what goes to disk (9 to 12), moves (14 to 17), both (20, 21)."""
    from millstream.lab.papers.state_adapt.both import Both
    from millstream.lab.papers.state_adapt.disk import Disk
    from millstream.lab.papers.state_adapt.move import Move
    from millstream.lab.papers.state_adapt.partitioned import Partitioned

    partitioned = Partitioned(out=out, tuples=tuples, tell=_tell)
    disk = Disk(out=out, tuples=tuples, tell=_tell)
    move = Move(out=out, tuples=tuples, rounds=rounds, tell=_tell)
    both = Both(out=out, tuples=tuples, tell=_tell)
    _figures(
        figure,
        {
            "6": partitioned.figure_6,
            "7": partitioned.figure_7,
            "9": disk.figures_9_and_10,
            "11": disk.figure_11,
            "12": disk.figure_12,
            "14": move.figures_14_to_16,
            "17": move.figure_17,
            "20": both.figure_20,
            "21": both.figure_21,
        },
        {"10": "9", "15": "14", "16": "14"},
    )


@paper.command("window-cost")
@click.option(
    "--figure",
    type=click.Choice(["2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "seven"]),
    help="One figure; all if left out.",
)
@_out
def window_cost(figure: str | None, out: Path) -> None:
    """Window joins: index or scan (2 to 7), which rows to keep (8), how far windows reach (9), both (10, 11), for seven
    queries (seven).
    """
    from millstream.lab.papers.window_cost.run import FIGURES

    _figures(figure, {number: partial(run, out) for number, run in FIGURES.items()}, {})


def _figures(figure: str | None, figures: Mapping[str, Callable[[], Iterable[str]]], same: Mapping[str, str]) -> None:
    """The requested figure, or all; figures of one experiment are run together."""
    for number in [same.get(figure, figure)] if figure else list(figures):
        _show(figures[number]())
        click.echo()


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        _tell("")
        click.echo(line)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _one_of(name: str, known: Iterable[str], what: str) -> str:
    if name not in known:
        raise click.UsageError(f'no {what} "{name}"; there are {", ".join(known)}')
    return name


def _tell(text: str) -> None:
    """Shows progress on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{text}", err=True, nl=False)
