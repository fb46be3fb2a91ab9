"""The generators do what the papers say of their streams."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millstream.lab.workloads.generators import SECOND, Sensors, pareto_bursts, poisson, self_similar, zipf_keys


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_poisson_arrivals_have_the_mean_and_the_variance_of_their_rate() -> None:
    times = poisson(rng(), rate=100, seconds=1000)
    per_second = np.bincount(times // SECOND, minlength=1000)
    assert per_second.mean() == pytest.approx(100, rel=0.02)
    assert per_second.var() == pytest.approx(100, rel=0.15)
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize("burst", [1, 2, 4, 5])
def test_bursts_keep_the_rate_and_have_their_mean_size(burst: float) -> None:
    times = pareto_bursts(rng(), rate=100, seconds=20_000, burst=burst)
    sizes = np.unique(times, return_counts=True)[1]
    assert len(times) / 20_000 == pytest.approx(100, rel=0.25)
    assert sizes.mean() == pytest.approx(burst, rel=0.25)
    assert np.all(np.diff(times) >= 0)


def test_self_similar_traffic_stays_bursty_when_it_is_averaged() -> None:
    """Poisson counts smooth out with the square root of the time they are summed over; on/off flows do not."""
    bursty = np.bincount(self_similar(rng(), 200, 2000) // SECOND, minlength=2000)
    smooth = np.bincount(poisson(rng(), 200, 2000) // SECOND, minlength=2000)

    def kept(counts: np.ndarray) -> float:
        summed = counts[:2000].reshape(-1, 50).mean(axis=1)
        return float(summed.std() / counts.std())

    assert kept(bursty) > 2 * kept(smooth)
    assert bursty.mean() == pytest.approx(200, rel=0.3)


def test_zipf_keys_fall_with_their_rank() -> None:
    counts = np.bincount(zipf_keys(rng(), 100_000, keys=100, exponent=1.0), minlength=100)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.2)
    assert np.bincount(zipf_keys(rng(), 100_000, keys=100), minlength=100).std() < 50


def test_the_number_of_batches_changes_no_row() -> None:
    sensors = Sensors(rate=50, seconds=40, burst=2, skew=0.5, disorder_seconds=3)
    whole = sensors.table(5)
    for count in (1, 7, 40, 100):
        assert pa.concat_tables(sensors.batches(5, count)).equals(whole)
    assert not sensors.table(6).equals(whole)
    assert sensors.table(5).equals(whole)


def test_disorder_is_bounded() -> None:
    times = np.asarray(Sensors(rate=100, seconds=60, disorder_seconds=2).table(1).column("Ts").cast(pa.int64()))
    behind = np.maximum.accumulate(times) - times
    assert SECOND < behind.max() <= 2 * SECOND


def test_a_long_stream_needs_the_memory_of_a_batch() -> None:
    endless = Sensors(rate=10, seconds=10**9).batches(1, 10**9)
    first = next(endless)
    assert 0 < first.num_rows < 100
