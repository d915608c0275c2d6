"""Trees of hashes: as RFC 6962 defines them, and each leaf's siblings lead to the top, by the checker's own code."""

import contextlib
from collections.abc import Sequence

import pytest

from ledger.core.totals import HashTree, hash_of, node
from tools import check_proof
from tools.teller.prove import siblings

LEAVES = [hash_of(str(number)) for number in range(70)]


def top_of(leaves: Sequence[str]) -> str:
    """By the definition in RFC 6962, 2.1: the left side is the largest power of two that is less than the number."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return node(top_of(leaves[:left]), top_of(leaves[left:]))


def test_a_tree_of_any_size_is_that_of_the_definition_and_has_each_leaf() -> None:
    tree = HashTree()
    assert tree.top == ""
    for size, leaf in enumerate(LEAVES, 1):
        tree = tree.with_leaves([leaf])
        leaves = LEAVES[:size]
        assert tree == HashTree().with_leaves(leaves)
        assert (tree.size, len(tree.peaks), tree.top) == (size, size.bit_count(), top_of(leaves))
        for place, each in enumerate(leaves):
            beside = siblings(leaves, place)
            assert check_proof.top(each, place, size, beside) == tree.top
            assert check_proof.top(hash_of("another"), place, size, beside) != tree.top


@pytest.mark.parametrize(("place", "size", "more"), [(5, 5, ""), (-1, 5, ""), (2, 5, "x" * 43), (2, 3, "")])
def test_siblings_of_another_tree_prove_nothing(place: int, size: int, more: str) -> None:
    beside = siblings(LEAVES[:5], 2) + more
    with contextlib.suppress(ValueError):
        assert check_proof.top(LEAVES[2], place, size, beside) != top_of(LEAVES[:5])
