"""Pools and their shards: how many there may be, their ids, and how one begins."""

import pytest
from msgspec.structs import replace

from ledger.core.pools import Pool, opened_shard, pool_of, shard_id
from tests.support.samples import ALICE, NOW


@pytest.mark.parametrize(("shards", "opened"), [(3, 2), (8, 3), (4, 8), (512, 2), (8, 0)])
def test_a_pool_has_a_power_of_two_of_shards_and_had_no_more_when_it_was_opened(shards: int, opened: int) -> None:
    with pytest.raises(ValueError, match=f"pool: {shards} shards, opened with {opened}"):
        Pool(shards, opened)


def test_a_shards_id_names_its_pool_and_no_other_id_does() -> None:
    assert pool_of(shard_id("till", 7)) == "till"
    assert pool_of("till:7") is None


def test_a_shard_is_as_the_pool_was_opened() -> None:
    shard = opened_shard(shard_id("alice", 1), replace(ALICE, pool=Pool(shards=8, opened=2), posted_at=NOW, seal="s"))
    assert shard == replace(ALICE, account_id=shard_id("alice", 1), version=0)
