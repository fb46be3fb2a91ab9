"""The rows of the example of sixteen queries over five streams."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from millstream.errors import Errors
from millstream.lab.workloads.op_sched_streams import SCRIPT, SHARES, OpSchedStreams
from millstream.sql import read


def test_the_queries_join_as_many_streams_as_the_paper_says() -> None:
    errors = Errors()
    script = read(SCRIPT, errors)
    assert not list(errors)
    assert [stream.name for stream in script.streams] == list(SHARES)
    assert Counter(len(query.sources) for query in script.queries) == {2: 9, 3: 4, 4: 1, 5: 2}
    assert len(re.findall(r"\bJOIN S\d", SCRIPT)) == 9 + 2 * 4 + 3 + 2 * 4


def test_streams_have_different_rates_and_bursts() -> None:
    streams = OpSchedStreams(rate=4_000, seconds=200)
    batches = streams.batches(200)
    rows = {name: sum(map(len, parts)) for name, parts in batches.items()}
    assert set(rows) == set(SHARES)
    assert sum(rows.values()) == pytest.approx(800_000, rel=0.6)
    counts = np.array([len(part) for part in batches["S1"]])
    assert counts.std() > 5 * np.sqrt(counts.mean()), "much more bursty than independent arrivals"


def test_batches_are_the_stream_cut_at_equal_times() -> None:
    whole, cut = (OpSchedStreams(rate=2_000, seconds=6).batches(count) for count in (1, 3))
    for name in SHARES:
        assert pa.concat_tables(cut[name]).equals(whole[name][0])
        for number, part in enumerate(cut[name]):
            times = np.asarray(part["Ts"].cast(pa.int64())) / 1e6
            assert ((times >= 2 * number) & (times < 2 * number + 2)).all()
