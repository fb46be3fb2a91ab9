"""shared-join: Figures 3 and 5 by the equations, 7 to 10 and the buffers on the engine; the paper's numbers next to
measured ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from millstream.lab.papers.shared_join import model
from millstream.lab.papers.shared_join.run import Costs, Outcome, Setup, calibrated, measure
from millstream.lab.show import bars, save_csv, save_lines, verdict
from millstream.lab.workloads.windows import TABLE_1

POLICIES = ("lwo", "swf", "greedy")
BURSTS = (1, 2, 3, 4, 5)
COUNTED, CPU = CLOCKS = ("counted", "cpu")


def figure_3() -> Iterator[str]:
    yield from model.figure("lwo")


def figure_5() -> Iterator[str]:
    yield from model.figure("swf")


def figures_7_and_8(directory: Path, tuples: int, clock: str = COUNTED) -> Iterator[str]:
    """The four mixes of Table 1."""
    yield f"shared-join Figures 7 and 8: {tuples:,} tuples, Poisson arrivals, on the engine; response in seconds"
    found: dict[str, dict[str, Outcome]] = {}
    for mix, windows in TABLE_1.items():
        found[mix] = _measured(Setup(windows, tuples=tuples), clock)
        yield from _shown(mix, found[mix])
    means = {mix: {policy: one.mean_of_windows for policy, one in by.items()} for mix, by in found.items()}
    yield ""
    for mix, by in means.items():
        yield f"  {mix}: Greedy has the best mean over windows: {verdict(_best(by) == 'greedy')}"
    for mix, by in means.items():
        second = sorted(by, key=by.__getitem__)[1]
        wanted = "swf" if mix == "Mostly-Small" else "lwo"
        yield f"  {mix}: second comes {wanted}, as in the paper: {verdict(second == wanted)}"
    for mix, by_policy in found.items():
        flat = [one.mean for one in by_policy["lwo"].windows.values()]
        yield f"  {mix}: LWO is flat over windows (within a factor of two): {verdict(max(flat) < 2 * min(flat))}"
    ratio = {mix: by["swf"] / by["lwo"] for mix, by in means.items()}
    yield f"  SWF is worst on Mostly-Large, against LWO: {verdict(max(ratio, key=ratio.__getitem__) == 'Mostly-Large')}"
    yield from _buffers(found)
    yield from _saved(directory, "figure_8", {f"{mix} {p}": one for mix, by in found.items() for p, one in by.items()})


def figure_9(directory: Path, tuples: int, clock: str = COUNTED) -> Iterator[str]:
    """Nested loops: every pair of tuples in the window is compared."""
    yield "shared-join Figure 9: nested loops (the scan access path), Uniform and Small-Large"
    found: dict[str, dict[str, Outcome]] = {}
    for mix in ("Uniform", "Small-Large"):
        found[mix] = _measured(Setup(TABLE_1[mix], tuples=tuples, rows=50, access="scan"), clock)
        yield from _shown(mix, found[mix])
    yield ""
    for mix, by in found.items():
        means = {policy: one.mean_of_windows for policy, one in by.items()}
        yield f"  {mix}: Greedy has the best mean over windows: {verdict(_best(means) == 'greedy')}"
    yield from _saved(directory, "figure_9", {f"{mix} {p}": one for mix, by in found.items() for p, one in by.items()})


def figure_10(directory: Path, tuples: int, clock: str = COUNTED) -> Iterator[str]:
    """Bursts of mean 1 to 5 on Small-Large."""
    yield f"shared-join Figure 10: Small-Large, Pareto bursts, {tuples:,} tuples; mean response over windows in seconds"
    setup = Setup(TABLE_1["Small-Large"], tuples=tuples, load=0.7)
    known = _clock(setup, clock)
    found: dict[int, dict[str, Outcome]] = {}
    for burst in BURSTS:
        own = Setup(setup.windows, tuples=tuples, load=setup.load, burst=burst)
        found[burst] = measure(own, POLICIES, known)
        means = {policy: one.mean_of_windows for policy, one in found[burst].items()}
        cells = "  ".join(f"{policy} {mean:7.3f}" for policy, mean in means.items())
        saved, longer = 1 - means["greedy"] / means["lwo"], means["lwo"] / means["greedy"] - 1
        yield f"  burst {burst}  {cells}   Greedy saves {saved:.0%} of LWO, LWO takes {longer:.0%} longer"
    best = [_best({policy: one.mean_of_windows for policy, one in by.items()}) for by in found.values()]
    yield f"  Greedy is best at every burst size: {verdict(set(best) == {'greedy'})}"
    longer = found[4]["lwo"].mean_of_windows / found[4]["greedy"].mean_of_windows - 1
    claim = "at bursts of 4 LWO takes at least 50 % longer than Greedy (paper: an improvement of up to 80 %)"
    yield f"  {claim}: {verdict(longer >= 0.5)} ({longer:.0%})"
    widest = max(setup.windows)
    swf, greedy = (found[5][policy].windows[widest].greatest for policy in ("swf", "greedy"))
    yield f"  at bursts of 5, worst case of the largest window, SWF / Greedy: {swf / greedy:.1f} (paper: 125 s / 25 s)"
    lines = {
        policy: ([float(b) for b in BURSTS], [found[b][policy].mean_of_windows for b in BURSTS]) for policy in POLICIES
    }
    picture = save_lines(directory, "shared-join_figure_10", lines, "mean burst", "mean response, s", log=True)
    yield f"written: {picture}"
    yield from _saved(
        directory, "figure_10", {f"burst {b} {p}": one for b, by in found.items() for p, one in by.items()}
    )


def _clock(setup: Setup, clock: str) -> tuple[float, Costs | None]:
    stretch, costs = calibrated(setup)
    return stretch, costs if clock == COUNTED else None


def _measured(setup: Setup, clock: str) -> dict[str, Outcome]:
    return measure(setup, POLICIES, _clock(setup, clock))


def _best(means: dict[str, float]) -> str:
    return min(means, key=means.__getitem__)


def _shown(mix: str, by_policy: dict[str, Outcome]) -> Iterator[str]:
    windows = next(iter(by_policy.values())).windows
    yield ""
    yield f"{mix:<14} {'by window: ' + ', '.join(f'{window} s' for window in windows)}"
    greatest = max(one.mean_of_windows for one in by_policy.values())
    for policy, one in by_policy.items():
        means = " ".join(f"{r.mean:7.3f}" for r in one.windows.values())
        busy = one.cpu / max(one.arrived, 1) * 1e3
        yield f"  {policy:<8} {means}   mean {one.mean_of_windows:7.3f}  {bars(one.mean_of_windows, greatest, 20)}"
        worst = " ".join(f"{r.greatest:7.3f}" for r in one.windows.values())
        yield f"  {'worst':<8} {worst}   mean per row {one.mean:.3f}, {busy:.1f} ms of CPU a tuple"


def _buffers(found: dict[str, dict[str, Outcome]]) -> Iterator[str]:
    """The peak of waiting tuples and held rows as a share of the join buffer."""
    outcomes = [one for by in found.values() for policy, one in by.items() if policy != "lwo"]
    waiting = max(one.most_waiting / one.join_rows for one in outcomes)
    held = max(one.most_held / one.join_rows for one in outcomes)
    yield f"  input buffer at most {waiting:.1%} of the join buffer (paper: under 10 %): {verdict(waiting < 0.1)}"
    yield f"  output buffer at most {held:.1%} of the join buffer (paper: under 3 %): {verdict(held < 0.03)}"


def _saved(directory: Path, name: str, found: dict[str, Outcome]) -> Iterator[str]:
    rows = [
        (label, window, one.mean, one.greatest, one.rows)
        for label, outcome in found.items()
        for window, one in outcome.windows.items()
    ]
    header = ("run", "window_s", "mean_response_s", "worst_response_s", "rows")
    yield f"written: {save_csv(directory, f'shared-join_{name}', header, rows)}"
    lines = {
        label: ([float(w) for w in outcome.windows], [r.mean for r in outcome.windows.values()])
        for label, outcome in found.items()
    }
    picture = save_lines(directory, f"shared-join_{name}_by_window", lines, "window, s", "mean response, s", log=True)
    yield f"written: {picture}"
