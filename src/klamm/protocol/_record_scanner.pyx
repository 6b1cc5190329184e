# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops of the record scanner, compiled.

Each function does what its namesake in `_record_scanner_py.py` does; tests hold them against each other. All of them run
without the interpreter's lock, so that a cleaner's thread does not hold up the loop. Bytes are read only below an end
that was checked: nothing in here trusts a length.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import mmap

from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["OffsetTable", "copy_kept", "count_kept", "scan_body", "siphash128"]

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KLAMM_PREFETCH(address) __builtin_prefetch((address), 1, 1)
    #else
    #define KLAMM_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "KLAMM_PREFETCH"(const void *address) noexcept nogil

cdef array _INT32 = array("i")
cdef array _INT64 = array("q")
if _INT32.itemsize != 4 or _INT64.itemsize != 8:
    raise ImportError("this machine's integers have other sizes")

cdef enum Flaw:
    NO_FLAW
    RECORD_LENGTH
    FIELD
    RECORD_END
    HEADERS_COUNT
    HEADER_KEY


# --- numbers of variable length: see klamm.protocol.varint ---------------------------------------------------------

cdef inline Py_ssize_t _read_varint(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int32_t *number
) noexcept nogil:
    """The position after the number, -1 if it is not whole before `end`."""
    cdef uint32_t bits = 0, byte
    cdef int shift = 0
    while position < end:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = <int32_t> ((bits >> 1) ^ (0 - (bits & 1)))
            return position
        shift += 7
        if shift > 28:
            return -1
    return -1


cdef inline Py_ssize_t _read_varlong(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int64_t *number
) noexcept nogil:
    cdef uint64_t bits = 0, byte
    cdef int shift = 0
    while position < end:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            number[0] = <int64_t> ((bits >> 1) ^ (0 - (bits & 1)))
            return position
        shift += 7
        if shift > 63:
            return -1
    return -1


cdef inline uint64_t _zigzag(int64_t number) noexcept nogil:
    return (<uint64_t> number << 1) ^ <uint64_t> (0 - (<uint64_t> number >> 63))


cdef inline Py_ssize_t _varint_size(int64_t number) noexcept nogil:
    cdef uint64_t bits = _zigzag(number)
    cdef Py_ssize_t size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


cdef inline Py_ssize_t _write_varint(uint8_t *out, Py_ssize_t position, int64_t number) noexcept nogil:
    cdef uint64_t bits = _zigzag(number)
    while bits >= 0x80:
        out[position] = <uint8_t> (bits & 0x7F | 0x80)
        position += 1
        bits >>= 7
    out[position] = <uint8_t> bits
    return position + 1


# --- scanning ------------------------------------------------------------------------------------------------------

cdef struct Columns:
    int32_t *offset_deltas
    int64_t *timestamp_deltas
    int32_t *record_bounds
    int32_t *key_starts
    int32_t *key_ends
    int32_t *value_starts
    int32_t *value_ends
    int32_t *headers_starts


cdef inline Py_ssize_t _skip_headers(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, Flaw *flaw
) noexcept nogil:
    cdef int32_t count, length, index
    flaw[0] = FIELD
    position = _read_varint(data, position, end, &count)
    if position < 0:
        return -1
    # A header has at least the lengths of its key and value.
    if count < 0 or count > (end - position) // 2:
        flaw[0] = HEADERS_COUNT
        return -1
    for index in range(count):
        position = _read_varint(data, position, end, &length)
        if position < 0:
            return -1
        if length < 0:
            flaw[0] = HEADER_KEY
            return -1
        if length > end - position:
            return -1
        position = _read_varint(data, position + length, end, &length)
        if position < 0:
            return -1
        if length > 0:
            if length > end - position:
                return -1
            position += length
    flaw[0] = NO_FLAW
    return position


cdef inline Py_ssize_t _skip_field(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int32_t *start, int32_t *field_end
) noexcept nogil:
    cdef int32_t length
    position = _read_varint(data, position, end, &length)
    if position < 0 or length > end - position:
        return -1
    start[0] = <int32_t> position
    if length < 0:
        field_end[0] = -1
        return position
    position += length
    field_end[0] = <int32_t> position
    return position


cdef Flaw _scan(
    const uint8_t *data, Py_ssize_t end, Py_ssize_t count, Columns *columns, Py_ssize_t *reached
) noexcept nogil:
    cdef Py_ssize_t position = 0, record_end, index
    cdef int32_t length
    cdef Flaw flaw = NO_FLAW
    columns.record_bounds[0] = 0
    for index in range(count):
        reached[0] = position
        position = _read_varint(data, position, end, &length)
        if position < 0:
            return FIELD
        if length < 0 or length > end - position:
            return RECORD_LENGTH
        record_end = position + length
        position = _read_varlong(data, position + 1, record_end, &columns.timestamp_deltas[index])
        if position < 0:
            return FIELD
        position = _read_varint(data, position, record_end, &columns.offset_deltas[index])
        if position < 0:
            return FIELD
        position = _skip_field(data, position, record_end, &columns.key_starts[index], &columns.key_ends[index])
        if position < 0:
            return FIELD
        position = _skip_field(data, position, record_end, &columns.value_starts[index], &columns.value_ends[index])
        if position < 0 or position >= record_end:
            return FIELD
        columns.headers_starts[index] = <int32_t> position
        if data[position]:
            position = _skip_headers(data, position, record_end, &flaw)
            if position < 0:
                return flaw
        else:
            position += 1
        if position != record_end:
            return RECORD_END
        columns.record_bounds[index + 1] = <int32_t> record_end
    reached[0] = position
    return NO_FLAW


def scan_body(body, Py_ssize_t count):
    cdef Py_buffer buffer
    cdef Columns columns
    cdef array offset_deltas, timestamp_deltas, record_bounds
    cdef array key_starts, key_ends, value_starts, value_ends, headers_starts
    cdef Py_ssize_t reached = 0, end
    cdef Flaw flaw
    PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
    try:
        end = buffer.len
        # The smallest record has seven bytes: a length and six fields. Positions are numbers of 32 bits.
        if count < 0 or count > end // 7 or end > 0x7FFFFFFF:
            raise _invalid(f"{count} records in {end} bytes")
        offset_deltas = clone(_INT32, count, False)
        timestamp_deltas = clone(_INT64, count, False)
        record_bounds = clone(_INT32, count + 1, False)
        key_starts = clone(_INT32, count, False)
        key_ends = clone(_INT32, count, False)
        value_starts = clone(_INT32, count, False)
        value_ends = clone(_INT32, count, False)
        headers_starts = clone(_INT32, count, False)
        columns.offset_deltas = <int32_t *> offset_deltas.data.as_voidptr
        columns.timestamp_deltas = <int64_t *> timestamp_deltas.data.as_voidptr
        columns.record_bounds = <int32_t *> record_bounds.data.as_voidptr
        columns.key_starts = <int32_t *> key_starts.data.as_voidptr
        columns.key_ends = <int32_t *> key_ends.data.as_voidptr
        columns.value_starts = <int32_t *> value_starts.data.as_voidptr
        columns.value_ends = <int32_t *> value_ends.data.as_voidptr
        columns.headers_starts = <int32_t *> headers_starts.data.as_voidptr
        with nogil:
            flaw = _scan(<const uint8_t *> buffer.buf, end, count, &columns, &reached)
    finally:
        PyBuffer_Release(&buffer)
    if flaw != NO_FLAW:
        raise _invalid(f"the record at byte {reached} of {end}: {_FLAWS[flaw]}")
    if reached != end:
        raise _invalid(f"{end - reached} bytes follow the last of {count} records")
    return (
        memoryview(offset_deltas),
        memoryview(timestamp_deltas),
        memoryview(record_bounds),
        memoryview(key_starts),
        memoryview(key_ends),
        memoryview(value_starts),
        memoryview(value_ends),
        memoryview(headers_starts),
    )


_FLAWS = {
    RECORD_LENGTH: "its length is negative or larger than the batch",
    FIELD: "it ends within a field",
    RECORD_END: "it does not end where its length says",
    HEADERS_COUNT: "it has fewer bytes than that many headers need",
    HEADER_KEY: "a header without a key",
}


def _invalid(message):
    return KafkaError(ErrorCode.invalid_record, message)


# --- copying -------------------------------------------------------------------------------------------------------

cdef class _Buffers:
    """The arrays of some spans, held while they are gone over; every length is checked once, here."""

    cdef Py_buffer views[10]
    cdef int held
    cdef Py_ssize_t count
    cdef const uint8_t *body
    cdef Py_ssize_t body_size
    cdef const int32_t *offset_deltas
    cdef const int64_t *timestamp_deltas
    cdef const int32_t *record_bounds
    cdef const int32_t *key_starts
    cdef const int32_t *key_ends
    cdef const int32_t *value_ends
    cdef uint8_t *keep

    def __cinit__(self, spans, keep, bint writes_keep):
        self.held = 0
        self.count = spans.count
        if self.count < 0:
            raise ValueError("a negative count")
        self.body = <const uint8_t *> self._hold(spans.body, 0, PyBUF_SIMPLE)
        self.body_size = self.views[0].len
        self.offset_deltas = <const int32_t *> self._hold(spans.offset_deltas, self.count * 4, PyBUF_SIMPLE)
        self.timestamp_deltas = <const int64_t *> self._hold(spans.timestamp_deltas, self.count * 8, PyBUF_SIMPLE)
        self.record_bounds = <const int32_t *> self._hold(spans.record_bounds, self.count * 4 + 4, PyBUF_SIMPLE)
        self.key_starts = <const int32_t *> self._hold(spans.key_starts, self.count * 4, PyBUF_SIMPLE)
        self.key_ends = <const int32_t *> self._hold(spans.key_ends, self.count * 4, PyBUF_SIMPLE)
        self.value_ends = <const int32_t *> self._hold(spans.value_ends, self.count * 4, PyBUF_SIMPLE)
        self.keep = NULL
        if keep is not None:
            self.keep = <uint8_t *> self._hold(keep, self.count, PyBUF_WRITABLE if writes_keep else PyBUF_SIMPLE)

    cdef void *_hold(self, owner, Py_ssize_t size, int flags) except? NULL:
        PyObject_GetBuffer(owner, &self.views[self.held], flags)
        self.held += 1
        if self.views[self.held - 1].len < size:
            raise ValueError("an array of the spans is shorter than there are records")
        return self.views[self.held - 1].buf

    def __dealloc__(self):
        cdef int index
        for index in range(self.held):
            PyBuffer_Release(&self.views[index])

    cdef inline bint key_is_inside(self, Py_ssize_t index) noexcept nogil:
        return 0 <= self.key_starts[index] <= self.key_ends[index] <= self.body_size


def count_kept(spans, keep):
    cdef _Buffers buffers = _Buffers(spans, keep, False)
    cdef Py_ssize_t index, kept = 0
    cdef bint has_tombstone = False
    with nogil:
        for index in range(buffers.count):
            if buffers.keep[index]:
                kept += 1
                if buffers.value_ends[index] < 0:
                    has_tombstone = True
    return kept, has_tombstone


def copy_kept(spans, keep, int64_t old_base_timestamp, base_timestamp, append_time):
    cdef _Buffers buffers = _Buffers(spans, keep, False)
    cdef bint has_base = base_timestamp is not None, has_append_time = append_time is not None
    cdef int64_t base = base_timestamp if has_base else 0
    cdef int64_t fixed = append_time if has_append_time else 0
    cdef int64_t largest = -1, timestamp, delta
    cdef Py_ssize_t index, size = 0, position = 0, record_size, tail_size, key_start
    cdef int64_t key_length
    cdef bytes payload
    cdef uint8_t *out = NULL
    cdef int writing
    # Once to know the size, once to write.
    for writing in range(2):
        if writing:
            payload = PyBytes_FromStringAndSize(NULL, size)
            out = <uint8_t *> PyBytes_AS_STRING(payload)
        with nogil:
            for index in range(buffers.count):
                if not buffers.keep[index]:
                    continue
                if has_append_time:
                    timestamp = fixed
                else:
                    timestamp = <int64_t> (<uint64_t> old_base_timestamp + <uint64_t> buffers.timestamp_deltas[index])
                if not has_base:
                    base = timestamp
                    has_base = True
                if timestamp > largest:
                    largest = timestamp
                delta = <int64_t> (<uint64_t> timestamp - <uint64_t> base)
                key_start = buffers.key_starts[index]
                key_length = buffers.key_ends[index] - key_start if buffers.key_ends[index] >= 0 else -1
                tail_size = buffers.record_bounds[index + 1] - key_start
                if key_start < 0 or tail_size < 0 or key_start + tail_size > buffers.body_size:
                    with gil:
                        raise ValueError("spans of another body")
                record_size = (
                    1
                    + _varint_size(delta)
                    + _varint_size(buffers.offset_deltas[index])
                    + _varint_size(key_length)
                    + tail_size
                )
                if not writing:
                    size += _varint_size(record_size) + record_size
                    continue
                position = _write_varint(out, position, record_size)
                out[position] = 0
                position = _write_varint(out, position + 1, delta)
                position = _write_varint(out, position, buffers.offset_deltas[index])
                position = _write_varint(out, position, key_length)
                memcpy(out + position, buffers.body + key_start, tail_size)
                position += tail_size
    return payload, base, largest


# --- the hash of keys ----------------------------------------------------------------------------------------------

cdef struct SipState:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef struct Digest:
    uint64_t low
    uint64_t high


cdef inline uint64_t _rotate(uint64_t number, int bits) noexcept nogil:
    return (number << bits) | (number >> (64 - bits))


cdef inline void _sip_round(SipState *state) noexcept nogil:
    state.v0 += state.v1
    state.v1 = _rotate(state.v1, 13) ^ state.v0
    state.v0 = _rotate(state.v0, 32)
    state.v2 += state.v3
    state.v3 = _rotate(state.v3, 16) ^ state.v2
    state.v0 += state.v3
    state.v3 = _rotate(state.v3, 21) ^ state.v0
    state.v2 += state.v1
    state.v1 = _rotate(state.v1, 17) ^ state.v2
    state.v2 = _rotate(state.v2, 32)


cdef inline Digest _siphash(const uint64_t *secret, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012): keyed, and quick for short keys."""
    cdef SipState state
    cdef uint64_t word, last
    cdef Py_ssize_t position = 0
    cdef Digest digest
    cdef int index
    state.v0 = 0x736F6D6570736575ULL ^ secret[0]
    state.v1 = 0x646F72616E646F6DULL ^ secret[1] ^ 0xEEULL
    state.v2 = 0x6C7967656E657261ULL ^ secret[0]
    state.v3 = 0x7465646279746573ULL ^ secret[1]
    while position + 8 <= size:
        memcpy(&word, data + position, 8)
        state.v3 ^= word
        _sip_round(&state)
        _sip_round(&state)
        state.v0 ^= word
        position += 8
    last = <uint64_t> size << 56
    for index in range(<int> (size - position)):
        last |= <uint64_t> data[position + index] << (8 * index)
    state.v3 ^= last
    _sip_round(&state)
    _sip_round(&state)
    state.v0 ^= last
    state.v2 ^= 0xEEULL
    for index in range(4):
        _sip_round(&state)
    digest.low = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    state.v1 ^= 0xDDULL
    for index in range(4):
        _sip_round(&state)
    digest.high = state.v0 ^ state.v1 ^ state.v2 ^ state.v3
    return digest


def siphash128(bytes secret, data):
    """The hash by which `OffsetTable` tells keys apart; for tests."""
    cdef uint64_t words[2]
    cdef Py_buffer buffer
    cdef Digest digest
    if len(secret) != 16:
        raise ValueError("the secret has 16 bytes")
    memcpy(words, PyBytes_AS_STRING(secret), 16)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    digest = _siphash(words, <const uint8_t *> buffer.buf, buffer.len)
    PyBuffer_Release(&buffer)
    return digest.low.to_bytes(8, "little") + digest.high.to_bytes(8, "little")


# --- the table -----------------------------------------------------------------------------------------------------

cdef struct Entry:
    Digest digest
    # The offset plus one: fresh pages hold zeros, which are empty entries.
    uint64_t mark


# Keys are hashed, and their places fetched from memory, in groups: one miss of the cache overlaps the next.
cdef enum:
    GROUP = 32
    FIRST_SLOTS = 4096
    RELEASE_ENTRIES = 1 << 16


cdef inline Py_ssize_t _home(Digest *digest, Py_ssize_t slots) noexcept nogil:
    # Rises with the hash: growing the table goes over the old one and the new one in the same order.
    return <Py_ssize_t> (((digest.low >> 32) * <uint64_t> slots) >> 32)


cdef inline Entry *_find(Entry *entries, Py_ssize_t slots, Digest *digest) noexcept nogil:
    """The entry of this hash, or the empty one where it belongs; NULL if there is neither."""
    cdef Py_ssize_t slot = _home(digest, slots), probes = slots
    cdef Entry *entry
    while probes > 0:
        entry = entries + slot
        if entry.mark == 0 or (entry.digest.low == digest.low and entry.digest.high == digest.high):
            return entry
        slot += 1
        if slot == slots:
            slot = 0
        probes -= 1
    return NULL


cdef class OffsetTable:
    """The latest offset of each key, told apart by 128-bit hashes; see `_record_scanner_py.OffsetTable`.

    Open addressing with linear probing in pages of its own. The table begins small and doubles while it is three
    quarters full, up to the memory that it may take.
    """

    BYTES_PER_ENTRY = sizeof(Entry)

    cdef readonly Py_ssize_t slots
    cdef Py_ssize_t current_slots
    cdef Py_ssize_t used
    cdef uint64_t secret[2]
    cdef object pages
    cdef Entry *entries

    def __init__(self, Py_ssize_t memory_bytes, bytes secret):
        if len(secret) != 16:
            raise ValueError("the secret has 16 bytes")
        self.slots = min(memory_bytes // <Py_ssize_t> sizeof(Entry), 0xFFFFFFFF)
        if self.slots < 1:
            raise ValueError(f"{memory_bytes} bytes hold no entry")
        memcpy(self.secret, PyBytes_AS_STRING(secret), 16)
        self.clear()

    def __len__(self):
        return self.used

    @property
    def memory_bytes(self):
        return self.current_slots * <Py_ssize_t> sizeof(Entry)

    def clear(self):
        self.used = 0
        self._allocate(min(self.slots, FIRST_SLOTS))

    cdef _allocate(self, Py_ssize_t slots):
        cdef Py_buffer buffer
        size = slots * <Py_ssize_t> sizeof(Entry)
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if _HAS_FLAGS else mmap.mmap(-1, size)
        PyObject_GetBuffer(pages, &buffer, PyBUF_WRITABLE)
        self.entries = <Entry *> buffer.buf
        # Nobody else knows these pages or could close them, so the pointer outlives the buffer.
        PyBuffer_Release(&buffer)
        self.pages = pages
        self.current_slots = slots

    cdef _grow(self):
        cdef Entry *old = self.entries
        cdef Entry *place
        cdef Py_ssize_t start, index, end = self.current_slots
        old_pages = self.pages
        self._allocate(min(self.slots, end * 2))
        while end > 0:
            start = end - RELEASE_ENTRIES if end > RELEASE_ENTRIES else 0
            with nogil:
                for index in range(end - 1, start - 1, -1):
                    if old[index].mark != 0:
                        place = _find(self.entries, self.current_slots, &old[index].digest)
                        place[0] = old[index]
            end = start
            # What was moved is given back at once: the old and the new table are never there both as a whole.
            if _MADV_DONTNEED is not None:
                first = -(-end * <Py_ssize_t> sizeof(Entry) // mmap.PAGESIZE) * mmap.PAGESIZE
                if first < len(old_pages):
                    old_pages.madvise(_MADV_DONTNEED, first)

    def put_records(self, spans, int64_t base_offset, *, int64_t start_offset, Py_ssize_t max_entries):
        cdef _Buffers buffers = _Buffers(spans, None, False)
        cdef Digest digests[GROUP]
        cdef Py_ssize_t rows[GROUP]
        cdef Py_ssize_t index = 0, limit = min(max_entries, self.slots), count = buffers.count
        cdef int pending, member
        cdef Entry *entry
        start_offset = max(start_offset, 0)
        while index < count:
            if self.current_slots < self.slots and (self.used + GROUP) * 4 > self.current_slots * 3:
                self._grow()
                continue
            with nogil:
                pending = 0
                while pending < GROUP and index < count:
                    if base_offset + buffers.offset_deltas[index] >= start_offset and buffers.key_ends[index] >= 0:
                        if not buffers.key_is_inside(index):
                            with gil:
                                raise ValueError("spans of another body")
                        digests[pending] = _siphash(
                            self.secret,
                            buffers.body + buffers.key_starts[index],
                            buffers.key_ends[index] - buffers.key_starts[index],
                        )
                        prefetch(self.entries + _home(&digests[pending], self.current_slots))
                        rows[pending] = index
                        pending += 1
                    index += 1
                for member in range(pending):
                    if self.used >= limit:
                        index = rows[member]
                        count = index
                        break
                    # There is a free entry: fewer are used than the limit, and the limit is at most the slots.
                    entry = _find(self.entries, self.current_slots, &digests[member])
                    if entry.mark == 0:
                        entry.digest = digests[member]
                        self.used += 1
                    entry.mark = <uint64_t> (base_offset + buffers.offset_deltas[rows[member]]) + 1
        return index

    def latest_offset(self, key):
        cdef Py_buffer buffer
        cdef Digest digest
        cdef Entry *entry
        PyObject_GetBuffer(key, &buffer, PyBUF_SIMPLE)
        digest = _siphash(self.secret, <const uint8_t *> buffer.buf, buffer.len)
        PyBuffer_Release(&buffer)
        entry = _find(self.entries, self.current_slots, &digest)
        return -1 if entry == NULL else <int64_t> (entry.mark - 1)

    def mark_kept(self, spans, int64_t base_offset, keep, *, int64_t end_offset, bint keep_tombstones):
        cdef _Buffers buffers = _Buffers(spans, keep, True)
        cdef Digest digests[GROUP]
        cdef Py_ssize_t rows[GROUP]
        cdef Py_ssize_t index = 0, kept = 0, without_key = 0
        cdef int pending, member
        cdef Entry *entry
        cdef bint is_kept
        with nogil:
            while index < buffers.count:
                pending = 0
                while pending < GROUP and index < buffers.count:
                    buffers.keep[index] = 0
                    if base_offset + buffers.offset_deltas[index] >= end_offset:
                        buffers.keep[index] = 1
                        kept += 1
                    elif buffers.key_ends[index] < 0:
                        without_key += 1
                    elif keep_tombstones or buffers.value_ends[index] >= 0:
                        if not buffers.key_is_inside(index):
                            with gil:
                                raise ValueError("spans of another body")
                        digests[pending] = _siphash(
                            self.secret,
                            buffers.body + buffers.key_starts[index],
                            buffers.key_ends[index] - buffers.key_starts[index],
                        )
                        prefetch(self.entries + _home(&digests[pending], self.current_slots))
                        rows[pending] = index
                        pending += 1
                    index += 1
                for member in range(pending):
                    entry = _find(self.entries, self.current_slots, &digests[member])
                    is_kept = (
                        entry == NULL
                        or entry.mark == 0
                        or base_offset + buffers.offset_deltas[rows[member]] >= <int64_t> (entry.mark - 1)
                    )
                    buffers.keep[rows[member]] = is_kept
                    kept += is_kept
        return kept, without_key


_HAS_FLAGS = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")
_MADV_DONTNEED = getattr(mmap, "MADV_DONTNEED", None)
