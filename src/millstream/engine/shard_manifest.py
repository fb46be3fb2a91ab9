"""A shard as it is saved between batches: its pools and its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.engine.chain_manifest import ChainManifest
from millstream.engine.files import Stamp
from millstream.engine.groups import Groups, to_json
from millstream.engine.pool_manifest import PoolManifest, SegmentEntry
from millstream.engine.store import files_of, stamp_in
from millstream.plan.nodes import PoolName, Signature

Marks = tuple[int, ...]
"""The batches after which a partition group was spilled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardManifest:
    """`numbered` is the last number given to a segment.

    `spilled` has the partition groups that have been spilled, by the batches after which they were: rows of a group
    that came before such a batch have not met those that came after it. `owing` are the groups of which there are both.
    """

    numbered: int = 0
    spilled: Mapping[Marks, Groups] = field(default_factory=dict)
    owing: Groups = 0
    pools: Mapping[PoolName, PoolManifest] = field(default_factory=dict)
    chains: Mapping[Signature, ChainManifest] = field(default_factory=dict)

    @property
    def segments(self) -> list[SegmentEntry]:
        """The segments of all pools."""
        return [entry for pool in self.pools.values() for entry in pool.segments]

    @property
    def deferred(self) -> int:
        """The number of deferred units."""
        return sum(len(chain.ledger) for chain in self.chains.values())

    def files(self) -> dict[str, Stamp]:
        """Every file it needs, with its stamp."""
        held = [entry for chain in self.chains.values() for entry in chain.held]
        found = {f"{entry.name}.arrow": stamp_in(entry.name) for entry in held}
        for entry in self.segments:
            found |= dict(zip(files_of(entry.name), entry.stamps, strict=True))
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "numbered": self.numbered,
            "spilled": [{"after": list(marks), "groups": to_json(groups)} for marks, groups in self.spilled.items()],
            "owing": to_json(self.owing),
            "pools": [{"pool": name, **pool.to_json()} for name, pool in self.pools.items()],
            "chains": [{"signature": name, **chain.to_json()} for name, chain in self.chains.items()],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> ShardManifest:
        return cls(
            numbered=saved["numbered"],
            spilled={tuple(one["after"]): int(one["groups"], 16) for one in saved["spilled"]},
            owing=int(saved["owing"], 16),
            pools={pool["pool"]: PoolManifest.from_json(pool) for pool in saved["pools"]},
            chains={chain["signature"]: ChainManifest.from_json(chain) for chain in saved["chains"]},
        )
