"""Buffers of unfinished frames: a pool of bounded size, and mappings that grow."""

from __future__ import annotations

from klamm.broker.network.frame_buffers import SMALLEST_KEPT, BufferPool, grow_mapping, new_mapping, shrink_mapping


def test_the_pool_lends_no_more_than_its_size() -> None:
    """What is given back can be lent again; what was never lent is not in the way."""
    pool = BufferPool(4 * SMALLEST_KEPT)
    first, second = pool.take(SMALLEST_KEPT), pool.take(2 * SMALLEST_KEPT)
    assert first is not None
    assert second is not None
    assert pool.take(2 * SMALLEST_KEPT) is None
    assert pool.take(100) is not None
    pool.give_back(second)
    assert pool.take(2 * SMALLEST_KEPT) is second


def test_the_pool_keeps_no_more_than_its_size() -> None:
    """Buffers of another size that are kept make room for those that are lent."""
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
    """The same one as long as nobody looks at it, else a copy that leaves the view alone."""
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
