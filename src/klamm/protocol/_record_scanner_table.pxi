# The table of the latest offset of each key, and the hash that identifies a key.

import mmap

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KLAMM_PREFETCH(address) __builtin_prefetch((address), 1, 1)
    #else
    #define KLAMM_PREFETCH(address) ((void)(address))
    #endif
    """
    void prefetch "KLAMM_PREFETCH"(const void *address) noexcept nogil

_HAS_FLAGS = hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS")
_MADV_DONTNEED = getattr(mmap, "MADV_DONTNEED", None)


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
    """Computes SipHash-2-4 with 128 bits (Aumasson and Bernstein, 2012): keyed, and quick for short keys."""
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
    """Returns the hash by which `OffsetTable` identifies a key; for tests."""
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


cdef struct Entry:
    Digest digest
    # The offset plus one: new pages contain zeros, which mean empty entries.
    uint64_t mark


# Keys are hashed, and their slots prefetched, in groups, so that cache misses overlap.
cdef enum:
    GROUP = 32
    FIRST_SLOTS = 4096
    RELEASE_ENTRIES = 1 << 16


cdef inline Py_ssize_t _home(Digest *digest, Py_ssize_t slots) noexcept nogil:
    # Increases with the hash, so that growing the table accesses the old and the new table in the same order.
    return <Py_ssize_t> (((digest.low >> 32) * <uint64_t> slots) >> 32)


cdef inline Entry *_find(Entry *entries, Py_ssize_t slots, Digest *digest) noexcept nogil:
    """Returns the entry of this hash, or the empty entry for it; NULL if there is neither."""
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
    """The latest offset of each key, identified by its 128-bit hash; see `_record_scanner_py.OffsetTable`.

    Open addressing with linear probing, in an anonymous mmap. The table begins small. It doubles whenever it is three
    quarters full, up to its memory limit.
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
        # No other code can close these pages, so the pointer stays valid after the buffer is released.
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
            # Pages of moved entries are released at once, so the two tables never both take their full memory.
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
                    # A free entry exists: fewer are used than the limit, and the limit is at most the number of slots.
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
