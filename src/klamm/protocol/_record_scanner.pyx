# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops of the record scanner, compiled.

Each function behaves like the one of the same name in `_record_scanner_py.py`; tests compare the two. All of them run
without the interpreter's lock, so that a cleaner's thread does not block the event loop. Every read is checked against
an end, and no length in the data is trusted.

One module in six files: numbers of variable length (`_record_scanner_varints.pxi`), scanning and copying here, finding
records (`_record_scanner_find.pxi`), the table of keys (`_record_scanner_table.pxi`), columns
(`_record_scanner_columns.pxi`), and the way back, from columns to records (`_record_scanner_encode.pxi`), whose
counterpart in Python is `_row_encoder_py.py`.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import timestamp_overflow

__all__ = [
    "RECORDS_AT_ONCE",
    "ColumnFiller",
    "OffsetTable",
    "RowEncoder",
    "copy_kept",
    "count_kept",
    "find_batches",
    "find_records",
    "rows_by_partition",
    "scan_body",
    "siphash128",
]

RECORDS_AT_ONCE = 65_536

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
    RECORDS_COUNT
    TIMESTAMP
    NO_MEMORY


include "_record_scanner_varints.pxi"


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
    RECORDS_COUNT: "there are fewer bytes than that many records need",
}


def _invalid(message):
    return KafkaError(ErrorCode.INVALID_RECORD, message)


cdef class _Buffers:
    """The arrays of some spans, held while they are read; the lengths of all arrays are checked here, once."""

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
    # The first pass computes the size, the second one writes.
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


include "_record_scanner_find.pxi"
include "_record_scanner_table.pxi"
include "_record_scanner_columns.pxi"
include "_record_scanner_encode.pxi"
