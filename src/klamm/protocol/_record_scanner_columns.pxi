# Collects the records of many batches into the columns of a table, in the memory layout of Apache Arrow. A column of
# bytes has the ends of its entries, their bytes one after the other, and one bit for each row: 0 for null. A column of
# numbers has only the numbers.

cdef extern from *:
    """
    static CYTHON_INLINE uint64_t klamm_big_endian(const uint8_t *from, int size) {
        uint64_t number = 0;
        for (int index = 0; index < size; index++) number = number << 8 | from[index];
        return number;
    }
    /* Milliseconds, before 1970 or after, whose microseconds 64 bits don't hold. */
    static CYTHON_INLINE int klamm_overflows(uint64_t milliseconds) {
        return milliseconds + UINT64_C(9223372036854775) > UINT64_C(18446744073709550);
    }
    """
    uint64_t big_endian "klamm_big_endian" (const uint8_t *start, int size) noexcept nogil
    bint overflows "klamm_overflows" (uint64_t milliseconds) noexcept nogil

cdef enum:
    # Short keys and values are copied as a chunk of this fixed size; each buffer has that much room at its end.
    _CHUNK = 32
    _LARGEST = 0x7FFFFFFF
    _LOG_OVERHEAD = 12
    _BATCH_HEADER = 61
    _CRC_START = 21
    _CODEC_BITS = 0x07
    _APPEND_TIME_BIT = 0x08
    _TRANSACTIONAL_BIT = 0x10
    _CONTROL_BIT = 0x20


def find_batches(records, int64_t offset):
    cdef Py_buffer buffer
    cdef const uint8_t *data
    cdef Py_ssize_t position = 0, start = -1, batch_size
    cdef int64_t next_offset = -1, behind
    PyObject_GetBuffer(records, &buffer, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *> buffer.buf
        with nogil:
            while position <= buffer.len - _BATCH_HEADER:
                batch_size = <Py_ssize_t> <int32_t> big_endian(data + position + 8, 4) + _LOG_OVERHEAD
                if data[position + 16] != 2 or not _BATCH_HEADER <= batch_size <= buffer.len - position:
                    break
                behind = <int64_t> (
                    big_endian(data + position, 8) + <uint64_t> <int32_t> big_endian(data + position + 23, 4) + 1
                )
                if behind > offset:
                    if start < 0:
                        start = position
                    next_offset = behind
                position += batch_size
    finally:
        PyBuffer_Release(&buffer)
    return position if start < 0 else start, position, next_offset


cdef struct Bytes:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t capacity


cdef int _grow(Bytes *bytes_, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t capacity = max(bytes_.size + more, 2 * bytes_.capacity, 1024) + _CHUNK
    cdef uint8_t *data = <uint8_t *> realloc(bytes_.data, capacity)
    if data == NULL:
        return -1
    bytes_.data = data
    bytes_.capacity = capacity
    return 0


cdef inline int _reserve(Bytes *bytes_, Py_ssize_t more) noexcept nogil:
    return 0 if bytes_.size + more <= bytes_.capacity - _CHUNK else _grow(bytes_, more)


cdef class Memory:
    """Bytes that are passed on without a copy; they stay alive while a view of them exists."""

    cdef Bytes held

    def __dealloc__(self):
        free(self.held.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.held.data, self.held.size, True, flags)

    def __len__(self):
        return self.held.size


cdef object _hand_on(Bytes *bytes_):
    """Returns the bytes as a Python object, and leaves an empty buffer with room for as many bytes again."""
    cdef Memory memory = Memory.__new__(Memory)
    cdef Py_ssize_t size = bytes_.size
    # Arrow needs an address even for an empty buffer.
    if bytes_.data == NULL and _grow(bytes_, 0) < 0:
        raise MemoryError
    memory.held = bytes_[0]
    bytes_.data = NULL
    bytes_.size = bytes_.capacity = 0
    if _grow(bytes_, size + size // 8) < 0:
        raise MemoryError
    return memory


# A column of bytes: the ends (one entry more than rows, the first is 0), the bytes, and one bit for each row.
cdef struct BytesColumn:
    Bytes ends
    Bytes data
    Bytes valid
    Py_ssize_t rows
    Py_ssize_t nulls


cdef inline int _reserve_rows(BytesColumn *column, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t bitmap_size = (column.rows + rows + 7) // 8
    cdef Py_ssize_t old_size = column.valid.size
    if _reserve(&column.ends, rows * 4 + 4) < 0:
        return -1
    if bitmap_size > old_size:
        if _reserve(&column.valid, bitmap_size - old_size) < 0:
            return -1
        memset(column.valid.data + old_size, 0, bitmap_size - old_size)
        column.valid.size = bitmap_size
    if not column.rows:
        (<int32_t *> column.ends.data)[0] = 0
        column.ends.size = 4
    return 0


cdef inline int _add_row(
    BytesColumn *column, const uint8_t *start, Py_ssize_t length, Py_ssize_t readable
) noexcept nogil:
    """Adds a row for which room is reserved; a negative length is null. `readable` bytes may be read from `start`."""
    cdef Py_ssize_t row = column.rows
    if length >= 0:
        if _reserve(&column.data, length) < 0:
            return -1
        if length <= _CHUNK <= readable:
            memcpy(column.data.data + column.data.size, start, _CHUNK)
        else:
            memcpy(column.data.data + column.data.size, start, length)
        column.data.size += length
        column.valid.data[row >> 3] |= <uint8_t> (1 << (row & 7))
    else:
        column.nulls += 1
    column.rows = row + 1
    (<int32_t *> column.ends.data)[row + 1] = <int32_t> column.data.size
    column.ends.size += 4
    return 0


cdef object _take_column(BytesColumn *column):
    """Returns (number of nulls, validity bits or None, ends, bytes); the column is empty afterwards."""
    if _reserve_rows(column, 0) < 0:
        raise MemoryError
    column.valid.size = (column.rows + 7) // 8
    nulls, valid = column.nulls, _hand_on(&column.valid)
    column.rows = column.nulls = 0
    return nulls, valid if nulls else None, _hand_on(&column.ends), _hand_on(&column.data)


cdef void _free_column(BytesColumn *column) noexcept:
    free(column.ends.data)
    free(column.data.data)
    free(column.valid.data)


# Fields of the batch that apply to all of its records.
cdef struct BatchFacts:
    uint64_t base_offset
    uint64_t base_timestamp
    uint64_t append_time
    bint has_append_time
    # Offset and timestamp of the record whose time does not fit into Spark's timestamp, if the flaw is TIMESTAMP.
    int64_t bad_offset
    int64_t bad_timestamp


cdef class ColumnFiller:
    cdef readonly Py_ssize_t rows
    cdef readonly bint is_full
    cdef Py_ssize_t max_rows, max_bytes, filled_bytes
    cdef bint include_headers
    cdef int64_t start_offset, end_offset
    cdef BytesColumn keys, values, header_keys, header_values
    cdef Bytes offsets, timestamps, timestamp_types
    # Each row's list of headers: its end among all headers, and whether the row has headers.
    cdef BytesColumn header_lists

    def __cinit__(self, Py_ssize_t max_rows, Py_ssize_t max_bytes, *, bint include_headers=False):
        if not 0 < max_rows <= _LARGEST or not 0 < max_bytes <= _LARGEST:
            raise ValueError("a table has at least a row and a byte, and Arrow counts them with 32 bits")
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.include_headers = include_headers
        self.start_offset = 0
        self.end_offset = 0x7FFFFFFFFFFFFFFF

    def __dealloc__(self):
        _free_column(&self.keys)
        _free_column(&self.values)
        _free_column(&self.header_keys)
        _free_column(&self.header_values)
        _free_column(&self.header_lists)
        free(self.offsets.data)
        free(self.timestamps.data)
        free(self.timestamp_types.data)

    def set_range(self, int64_t start_offset, int64_t end_offset):
        self.start_offset = start_offset
        self.end_offset = end_offset

    def add_plain_batches(self, records, Py_ssize_t position, crc32c, bint with_transactions):
        cdef Py_buffer buffer
        cdef const uint8_t *data
        cdef Py_ssize_t size, batch_size, left, reached
        cdef int64_t count, last_offset
        cdef int attributes
        cdef BatchFacts facts
        cdef Flaw flaw
        PyObject_GetBuffer(records, &buffer, PyBUF_SIMPLE)
        try:
            data, size = <const uint8_t *> buffer.buf, buffer.len
            while not self.is_full and 0 <= position <= size - _BATCH_HEADER:
                batch_size = <Py_ssize_t> <int32_t> big_endian(data + position + 8, 4) + _LOG_OVERHEAD
                attributes = <int> big_endian(data + position + 21, 2)
                count = <int32_t> big_endian(data + position + 57, 4)
                if (
                    data[position + 16] != 2
                    or not _BATCH_HEADER <= batch_size <= size - position
                    or attributes & (_CODEC_BITS | _CONTROL_BIT)
                    or attributes & _TRANSACTIONAL_BIT and not with_transactions
                ):
                    break
                facts.base_offset = big_endian(data + position, 8)
                if <int64_t> facts.base_offset >= self.end_offset:
                    position = size
                    break
                last_offset = <int64_t> (facts.base_offset + <uint64_t> <int32_t> big_endian(data + position + 23, 4))
                if last_offset < self.start_offset:
                    position += batch_size
                    continue
                if count > self.max_rows - self.rows or batch_size > self.max_bytes - self.filled_bytes:
                    # If a batch is too large even for an empty table, the caller has to add it in parts.
                    self.is_full = self.rows > 0 and count <= self.max_rows and batch_size <= self.max_bytes
                    break
                if crc32c is not None and <uint32_t> crc32c(
                    records[position + _CRC_START:position + batch_size], 0
                ) != <uint32_t> big_endian(data + position + 17, 4):
                    break
                facts.base_timestamp = big_endian(data + position + 27, 8)
                facts.append_time = big_endian(data + position + 35, 8)
                facts.has_append_time = attributes & _APPEND_TIME_BIT != 0
                left, reached = <Py_ssize_t> count, 0
                with nogil:
                    flaw = self._fill(
                        data + position + _BATCH_HEADER, batch_size - _BATCH_HEADER, &reached, &left, &facts
                    )
                self._check(flaw, &facts, count, left, reached, batch_size - _BATCH_HEADER)
                position += batch_size
        finally:
            PyBuffer_Release(&buffer)
        return position

    def add_records(
        self,
        body,
        Py_ssize_t position,
        Py_ssize_t count,
        *,
        int64_t base_offset,
        int64_t base_timestamp,
        append_time,
    ):
        cdef Py_buffer buffer
        cdef BatchFacts facts
        cdef Py_ssize_t left = count
        cdef Flaw flaw
        facts.base_offset = <uint64_t> base_offset
        facts.base_timestamp = <uint64_t> base_timestamp
        facts.has_append_time = append_time is not None
        facts.append_time = <uint64_t> <int64_t> (append_time if append_time is not None else 0)
        PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
        try:
            if not 0 <= position <= buffer.len:
                raise ValueError("a position outside the records")
            with nogil:
                flaw = self._fill(<const uint8_t *> buffer.buf, buffer.len, &position, &left, &facts)
            self._check(flaw, &facts, count, left, position, buffer.len)
        finally:
            PyBuffer_Release(&buffer)
        return position, left

    cdef int _check(
        self, Flaw flaw, BatchFacts *facts, Py_ssize_t count, Py_ssize_t left, Py_ssize_t reached, Py_ssize_t end
    ) except -1:
        if flaw == NO_MEMORY:
            raise MemoryError
        if flaw == TIMESTAMP:
            raise timestamp_overflow(facts.bad_offset, facts.bad_timestamp)
        if flaw != NO_FLAW:
            raise _invalid(f"the record at byte {reached} of {end}: {_FLAWS[flaw]}")
        if not left and reached != end:
            raise _invalid(f"{end - reached} bytes follow the last of {count} records")
        return 0

    cdef void _count_numbers(self) noexcept nogil:
        self.offsets.size = self.timestamps.size = self.rows * 8
        self.timestamp_types.size = self.rows * 4

    cdef int _make_room(self, Py_ssize_t rows) noexcept nogil:
        self._count_numbers()
        if (
            _reserve_rows(&self.keys, rows) < 0
            or _reserve_rows(&self.values, rows) < 0
            or _reserve(&self.offsets, rows * 8) < 0
            or _reserve(&self.timestamps, rows * 8) < 0
            or _reserve(&self.timestamp_types, rows * 4) < 0
        ):
            return -1
        return _reserve_rows(&self.header_lists, rows) if self.include_headers else 0

    cdef Flaw _fill(
        self, const uint8_t *data, Py_ssize_t end, Py_ssize_t *reached, Py_ssize_t *left, BatchFacts *facts
    ) noexcept nogil:
        """Adds records until the table is full; sets `reached` to the position, `left` to the number of records left."""
        cdef Py_ssize_t position = reached[0], record_end, count = left[0], key_start, value_start
        cdef int32_t length, offset_delta, key_length, value_length
        cdef int64_t timestamp_delta, offset
        cdef uint64_t timestamp
        cdef Flaw flaw
        # The smallest record has seven bytes: a length and six fields.
        if count < 0 or count > (end - position) // 7:
            return RECORDS_COUNT
        if self._make_room(min(count, self.max_rows - self.rows)) < 0:
            return NO_MEMORY
        while count:
            reached[0] = position
            left[0] = count
            position = _read_varint(data, position, end, &length)
            if position < 0:
                return FIELD
            if length < 0 or length > end - position:
                return RECORD_LENGTH
            if self.rows >= self.max_rows or (self.rows and length > self.max_bytes - self.filled_bytes):
                self.is_full = True
                return NO_FLAW
            record_end = position + length
            position = _read_varlong(data, position + 1, record_end, &timestamp_delta)
            if position < 0:
                return FIELD
            position = _read_varint(data, position, record_end, &offset_delta)
            if position < 0:
                return FIELD
            key_start = _read_varint(data, position, record_end, &key_length)
            if key_start < 0 or key_length > record_end - key_start:
                return FIELD
            position = key_start + max(key_length, 0)
            value_start = _read_varint(data, position, record_end, &value_length)
            if value_start < 0 or value_length > record_end - value_start:
                return FIELD
            position = value_start + max(value_length, 0)
            if position >= record_end:
                return FIELD
            offset = <int64_t> (facts.base_offset + <uint64_t> <int64_t> offset_delta)
            count -= 1
            if not data[position]:
                if position + 1 != record_end:
                    return RECORD_END
            if not self.start_offset <= offset < self.end_offset:
                position = record_end
                continue
            timestamp = facts.append_time if facts.has_append_time else facts.base_timestamp + <uint64_t> timestamp_delta
            if overflows(timestamp):
                facts.bad_offset = offset
                facts.bad_timestamp = <int64_t> timestamp
                return TIMESTAMP
            if self.include_headers:
                flaw = self._add_headers(data, position, record_end)
                if flaw != NO_FLAW:
                    return flaw
            position = record_end
            if (
                _add_row(&self.keys, data + key_start, key_length, end - key_start) < 0
                or _add_row(&self.values, data + value_start, value_length, end - value_start) < 0
            ):
                return NO_MEMORY
            (<int64_t *> self.offsets.data)[self.rows] = offset
            (<uint64_t *> self.timestamps.data)[self.rows] = timestamp * 1000
            (<int32_t *> self.timestamp_types.data)[self.rows] = facts.has_append_time
            self.rows += 1
            self.filled_bytes += length
        reached[0] = position
        left[0] = 0
        self.is_full = self.rows >= self.max_rows or self.filled_bytes >= self.max_bytes
        return NO_FLAW

    cdef Flaw _add_headers(self, const uint8_t *data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
        """Adds one row of header lists, from the bytes between the value and the record's end."""
        cdef int32_t count, length, index
        position = _read_varint(data, position, end, &count)
        if position < 0:
            return FIELD
        if count < 0 or count > (end - position) // 2:
            return HEADERS_COUNT
        if _reserve_rows(&self.header_keys, count) < 0 or _reserve_rows(&self.header_values, count) < 0:
            return NO_MEMORY
        for index in range(count):
            position = _read_varint(data, position, end, &length)
            if position < 0:
                return FIELD
            if length < 0:
                return HEADER_KEY
            if length > end - position:
                return FIELD
            if self._add_header_key(data + position, length, end - position) < 0:
                return NO_MEMORY
            position = _read_varint(data, position + length, end, &length)
            if position < 0 or length > end - position:
                return FIELD
            if _add_row(&self.header_values, data + position, length, end - position) < 0:
                return NO_MEMORY
            position += max(length, 0)
        if position != end:
            return RECORD_END
        # A record without headers gets null, as in Spark's own source.
        if _add_row(&self.header_lists, data, 0 if count else -1, 0) < 0:
            return NO_MEMORY
        (<int32_t *> self.header_lists.ends.data)[self.header_lists.rows] = <int32_t> self.header_keys.rows
        return NO_FLAW

    cdef int _add_header_key(self, const uint8_t *start, Py_ssize_t length, Py_ssize_t readable) noexcept nogil:
        """Adds a header key as text: invalid UTF-8 becomes replacement characters, as in Java."""
        cdef uint8_t seen = 0
        cdef Py_ssize_t index
        for index in range(length):
            seen |= start[index]
        if seen < 0x80:
            return _add_row(&self.header_keys, start, length, readable)
        with gil:
            return self._add_text(PyUnicode_DecodeUTF8(<const char *> start, length, "replace"))

    cdef int _add_text(self, str text) noexcept:
        cdef bytes encoded = text.encode()
        if len(encoded) > _LARGEST - self.header_keys.data.size:
            return -1
        return _add_row(&self.header_keys, <const uint8_t *> PyBytes_AS_STRING(encoded), len(encoded), len(encoded))

    def take(self):
        self._count_numbers()
        headers = None
        if self.include_headers:
            nulls, valid, ends, _ = _take_column(&self.header_lists)
            headers = nulls, valid, ends, _take_column(&self.header_keys), _take_column(&self.header_values)
        taken = (
            self.rows,
            _take_column(&self.keys),
            _take_column(&self.values),
            _hand_on(&self.offsets),
            _hand_on(&self.timestamps),
            _hand_on(&self.timestamp_types),
            headers,
        )
        self.rows = self.filled_bytes = 0
        self.is_full = False
        return taken
