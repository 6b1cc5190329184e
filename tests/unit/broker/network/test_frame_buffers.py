"""Tests the buffers of unfinished frames: a pool with a size limit, and mappings that grow."""

from __future__ import annotations

from klamm.broker.network.frame_buffers import SMALLEST_KEPT, BufferPool, grow_mapping, new_mapping, shrink_mapping


def test_the_pool_lends_no_more_than_its_size() -> None:
    """The pool lends no more than its size, and a returned buffer can be lent again."""
    pool = BufferPool(4 * SMALLEST_KEPT)
    first, second = pool.take(SMALLEST_KEPT), pool.take(2 * SMALLEST_KEPT)
    assert first is not None
    assert second is not None
    assert pool.take(2 * SMALLEST_KEPT) is None
    assert pool.take(100) is not None
    pool.give_back(second)
    assert pool.take(2 * SMALLEST_KEPT) is second


def test_the_pool_keeps_no_more_than_its_size() -> None:
    """The pool keeps no more than its size; unused buffers of another size are dropped for lent ones."""
    pool = BufferPool(4 * SMALLEST_KEPT)
    small = [pool.take(SMALLEST_KEPT) for _ in range(4)]
    for buffer in small:
        assert buffer is not None
        pool.give_back(buffer)
    large = pool.take(4 * SMALLEST_KEPT)
    assert large is not None
    assert pool.take(SMALLEST_KEPT) is None
    pool.give_back(large)
    again = pool.take(SMALLEST_KEPT)
    assert again is not None
    assert all(again is not buffer for buffer in small)


def test_a_mapping_grows_with_what_it_holds() -> None:
    """A mapping grows in place unless a view exists; otherwise it is copied, and the view keeps its content."""
    mapping = new_mapping(5000)
    mapping[:5000] = b"x" * 5000
    grown = grow_mapping(mapping, 5000, 1_000_000)
    assert (len(grown), grown[:5000]) == (1_000_000, b"x" * 5000)
    with memoryview(grown) as view:
        copy = grow_mapping(grown, 5000, 2_000_000)
        copy[:1] = b"y"
        assert (len(copy), copy[:5000]) == (2_000_000, b"y" + b"x" * 4999)
        assert bytes(view[:5000]) == b"x" * 5000
        assert not shrink_mapping(grown, 100)
    assert shrink_mapping(grown, 100)
    assert grown[:] == b"x" * 100
