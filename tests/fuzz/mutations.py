"""Inputs close to valid ones, by Hypothesis: seeds with bytes changed, removed, repeated and inserted."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

__all__ = ["near"]

_TELLING = (b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07")


@st.composite
def near(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Generates a seed, or any bytes, with changes in up to six places."""
    data = bytearray(draw(st.sampled_from(seeds) | st.binary(max_size=100)))
    for _ in range(draw(st.integers(0, 6))):
        position = draw(st.integers(0, len(data)))
        end = min(len(data), position + draw(st.sampled_from([0, 1, 1, 1, 2, 4, 8, 1000])))
        data[position:end] = draw(
            st.sampled_from(_TELLING) | st.binary(max_size=4) | st.just(bytes(data[position:end]) * 2)
        )
    return bytes(data)
