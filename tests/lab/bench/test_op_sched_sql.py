"""`millstream bench op-sched-sql` in small: every policy gives the rows of DuckDB, and what waited is told."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from millstream.cli import main
from millstream.engine.chain_manifest import ChainManifest, DeferredUnit
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.shard_manifest import ShardManifest
from millstream.lab.bench.op_sched_sql import queued, report
from millstream.pipeline.manifest import Manifest, SlotManifest


def test_every_policy_gives_the_rows_of_duckdb(tmp_path: Path) -> None:
    lines = list(report(1_000, 3, every=0.1, budget=5, policies=("fifo", "chain"), place=tmp_path))
    table = {line[:20].strip(): line.split() for line in lines if line.endswith(("  right", "  WRONG"))}
    assert list(table) == ["no budget", "fifo", "chain"]
    assert {words[-1] for words in table.values()} == {"right"}
    assert lines[-1].endswith("pass")
    assert not list(tmp_path.iterdir())


def segment(number: int, nbytes: int) -> SegmentEntry:
    return SegmentEntry(number=number, name=str(number), batch=1, reach=1, rows=1, nbytes=nbytes, first=0, last=0)


def unit(probe: int, looked_up: int) -> DeferredUnit:
    return DeferredUnit(probe=probe, at=0, lookup=((looked_up,),), lo=0, hi=1)


def test_what_waits_is_what_has_to_probe_in_each_chain() -> None:
    pools = {
        "A": PoolManifest(segments=(segment(1, 10), segment(2, 200))),
        "B": PoolManifest(segments=(segment(3, 4_000),)),
    }
    chains = {
        "AB": ChainManifest(ledger=(unit(1, 3), unit(1, 2))),
        "BA": ChainManifest(ledger=(unit(1, 3), unit(2, 3))),
        "none": ChainManifest(),
    }
    slot = SlotManifest("token", ShardManifest(numbered=3, pools=pools, chains=chains))
    assert queued(Manifest(slots={0: slot})) == 10 + 10 + 200
    assert queued(Manifest(slots={0: slot, 1: slot})) == 2 * (10 + 10 + 200)


def test_an_unknown_policy_is_refused() -> None:
    result = CliRunner().invoke(main, ["bench", "op-sched-sql", "--policies", "first"])
    assert result.exit_code == 2
    assert 'no policy "first"; there are greedy' in result.output
