"""Hashing agrees with and without compilation."""

from __future__ import annotations

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core import config

from eddyline.kernels.hashing import (
    above,
    above_python,
    hash_bytes_python,
    mix,
    mix_python,
    spread,
    spread_python,
)
from eddyline.synopses.codes import hash_codes

int64 = st.integers(-(1 << 63), (1 << 63) - 1)


@numba.njit
def compiled_mix(h, key):  # type: ignore[no-untyped-def]
    return mix(h, key)


@numba.njit
def compiled_spread(key, mask):  # type: ignore[no-untyped-def]
    return spread(key, mask)


@numba.njit
def compiled_above(low, value):  # type: ignore[no-untyped-def]
    return above(low, value)


@given(int64, int64, int64)
def test_a_value_is_in_a_range_if_it_is_no_farther_above_low_than_high_is(low: int, high: int, value: int) -> None:
    far, span = (int(compiled_above(np.int64(low), np.int64(x))) for x in (value, high))
    assert (far, span) == (above_python(low, value), above_python(low, high))
    if low <= high:
        assert (far <= span) == (low <= value <= high)


@given(int64, int64)
def test_mix_is_the_same_in_both_modes(h: int, key: int) -> None:
    assert int(compiled_mix(np.int64(h), np.int64(key))) == mix_python(h, key)


@given(int64, st.integers(0, 30))
def test_spread_is_the_same_in_both_modes(key: int, bits: int) -> None:
    mask = (1 << bits) - 1
    assert 0 <= int(compiled_spread(np.int64(key), np.int64(mask))) == spread_python(key, mask) <= mask


@pytest.mark.parametrize("step", [1, 7, 10, 16, 1000, 65_537, 1_000_000, 1 << 20, 1 << 32, 1 << 33, 1 << 40])
def test_keys_at_any_distance_fill_a_table_as_random_ones_would(step: int) -> None:
    """Of 5,000 random keys in 8,192 places each shares its own with 0.61 others."""
    places = np.array([spread_python(i * step, 8191) for i in range(5_000)])
    counts = np.bincount(places)
    assert (counts * counts).sum() / 5_000 - 1 < 0.8 and counts.max() <= 12


@pytest.mark.parametrize("start", [0, 12_345, 1 << 40])
def test_keys_that_were_counted_up_hardly_share_places(start: int) -> None:
    counts = np.bincount([spread_python(start + i, 8191) for i in range(5_000)])
    assert (counts * counts).sum() / 5_000 - 1 < 0.1


def test_doubles_fill_a_table_as_random_keys_would() -> None:
    keys = np.arange(5_000).astype(np.float64).view(np.int64).tolist()
    counts = np.bincount([spread_python(key, 8191) for key in keys])
    assert (counts * counts).sum() / 5_000 - 1 < 0.8


@pytest.mark.skipif(config.DISABLE_JIT, reason="helpers are plain functions")
def test_python_cannot_call_a_helper() -> None:
    """Not even one that a kernel has compiled: it has no code that unpacks arguments."""
    compiled_mix(np.int64(1), np.int64(2))
    with pytest.raises(TypeError, match="mix is a part of kernels; Python cannot call it"):
        mix(np.int64(1), np.int64(2))


@given(st.lists(st.one_of(st.none(), st.text(max_size=30)), max_size=20))
def test_strings_hash_by_their_bytes(values: list[str | None]) -> None:
    codes, nulls = hash_codes(pa.array(values, pa.string()))
    for i, v in enumerate(values):
        if v is None:
            assert nulls is not None and nulls[i]
        else:
            data = np.frombuffer(v.encode(), np.uint8)
            assert int(codes[i]) == hash_bytes_python(data, 0, len(data))


def test_slices_and_dictionaries_hash_like_the_values_themselves() -> None:
    array = pa.array(["a", "bb", None, "a", "a longer text than eight bytes"])
    plain, _ = hash_codes(array)
    sliced, _ = hash_codes(array.slice(1, 4))
    encoded, _ = hash_codes(array.dictionary_encode())
    valid = [0, 1, 3, 4]
    assert sliced[[0, 2, 3]].tolist() == plain[[1, 3, 4]].tolist()
    assert encoded[valid].tolist() == plain[valid].tolist()


def test_an_argument_that_does_not_fit_is_refused_and_never_compiled_for() -> None:
    import pytest
    from numba.core import config

    from eddyline.kernels.compile import kernel

    if config.DISABLE_JIT:
        return

    @kernel("int64(int64[::1])")
    def first(values):  # type: ignore[no-untyped-def]
        return values[0]

    with pytest.raises(TypeError, match="argument 0 of first"):
        first(np.array([1.5]))
    assert first.signatures == []  # type: ignore[attr-defined]
