"""The levels of Blelloch's sweeps meet no two words of one bank; the counters of a GPU say so in `bench/`."""

from __future__ import annotations

import pytest

from scanweaver.dialects.block_scan import BANKS, WORD, padding, sweep_slots


def words_in_busiest_bank(bytes: int, every: int, pad: int, distance: int, offset: int, participants: int) -> int:
    """Of the accesses of one level that go together: a warp's, or half a warp's where an element is two words."""
    together = BANKS * WORD // max(bytes, WORD)
    lanes = range(participants // (2 * distance))
    busiest = 0
    for first in range(0, len(lanes), together):
        banks: dict[int, set[int]] = {}
        for lane in lanes[first : first + together]:
            at = 2 * distance * (lane + 1) - 1 - offset
            begin = (at + at // every * pad) * bytes
            for word in range(begin // WORD, (begin + bytes - 1) // WORD + 1):
                banks.setdefault(word % BANKS, set()).add(word)
        busiest = max(busiest, *map(len, banks.values()))
    return busiest


@pytest.mark.parametrize("bytes", [1, 4, 8])
@pytest.mark.parametrize("participants", [32, 64, 128, 256])
def test_no_level_meets_a_bank_twice(bytes: int, participants: int) -> None:
    distance = 1
    while distance < participants:
        for offset in (0, distance):
            assert words_in_busiest_bank(bytes, *padding(bytes), distance, offset, participants) == 1, distance
        distance *= 2


def test_without_pads_levels_do() -> None:
    assert words_in_busiest_bank(4, 1 << 30, 1, 16, 0, 1024) == 32
    assert words_in_busiest_bank(8, 32, 1, 1, 0, 1024) == 2


def test_the_last_participant_has_a_slot() -> None:
    for bytes in (1, 4, 8):
        every, pad = padding(bytes)
        last = 511 + 511 // every * pad
        assert last < sweep_slots(512, 1, by_row=False, bytes=bytes) <= last + 1 + pad
