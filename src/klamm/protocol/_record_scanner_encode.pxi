# Encodes rows of columns as the records of batches. The columns have the memory layout of Apache Arrow: a column of bytes
# has 32-bit bounds (one more than entries), the bytes, and one bit for each entry (0 for null); it may begin at any entry.
# The bounds are checked before a byte is read: an entry that is not inside of its buffer is an error.

cdef enum RowFlaw:
    ROW_IS_FINE
    ROW_BOUNDS
    ROW_HEADER_KEY
    ROW_TOO_LARGE
    ROW_NUMBER
    PARTITION_NUMBER

_ROW_FLAWS = {
    ROW_BOUNDS: "the bounds of an entry are not inside of its buffer",
    ROW_HEADER_KEY: "a header has no key",
    ROW_NUMBER: "there is no such row",
    PARTITION_NUMBER: "its partition does not exist",
}


cdef struct Entries:
    const int32_t *bounds
    const uint8_t *data
    const uint8_t *valid
    Py_ssize_t first
    Py_ssize_t count
    Py_ssize_t size


cdef inline RowFlaw _entry(
    const Entries *column, Py_ssize_t index, const uint8_t **start, int64_t *length
) noexcept nogil:
    """Finds an entry; the length of null is -1."""
    cdef int32_t begin, end
    if index < 0 or index >= column.count:
        return ROW_BOUNDS
    index += column.first
    if column.valid != NULL and not column.valid[index >> 3] >> (index & 7) & 1:
        start[0] = NULL
        length[0] = -1
        return ROW_IS_FINE
    begin = column.bounds[index]
    end = column.bounds[index + 1]
    if begin < 0 or end < begin or end > column.size:
        return ROW_BOUNDS
    start[0] = column.data + begin
    length[0] = end - begin
    return ROW_IS_FINE


cdef inline uint32_t _murmur2(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t value = <uint32_t> 0x9747B28C ^ <uint32_t> length, word
    cdef Py_ssize_t position = 0, left = length & 3
    while position + 4 <= length:
        word = (
            <uint32_t> data[position]
            | <uint32_t> data[position + 1] << 8
            | <uint32_t> data[position + 2] << 16
            | <uint32_t> data[position + 3] << 24
        )
        word *= 0x5BD1E995
        word ^= word >> 24
        word *= 0x5BD1E995
        value = value * <uint32_t> 0x5BD1E995 ^ word
        position += 4
    if left:
        if left == 3:
            value ^= <uint32_t> data[position + 2] << 16
        if left >= 2:
            value ^= <uint32_t> data[position + 1] << 8
        value ^= <uint32_t> data[position]
        value *= 0x5BD1E995
    value ^= value >> 13
    value *= 0x5BD1E995
    return value ^ value >> 15


cdef uint32_t _CRC_TABLE[256]


cdef void _fill_crc_table() noexcept nogil:
    cdef uint32_t number, value
    cdef int bit
    for number in range(256):
        value = number
        for bit in range(8):
            value = value >> 1 ^ (<uint32_t> 0xEDB88320 if value & 1 else 0)
        _CRC_TABLE[number] = value


_fill_crc_table()


cdef inline uint32_t _crc32(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t value = 0xFFFFFFFF
    cdef Py_ssize_t position
    for position in range(length):
        value = _CRC_TABLE[(value ^ data[position]) & 0xFF] ^ value >> 8
    return value ^ <uint32_t> 0xFFFFFFFF


cdef class RowEncoder:
    cdef Py_buffer views[16]
    cdef int held
    cdef Py_ssize_t count
    cdef Entries keys, values, header_keys, header_values
    cdef bint has_keys, has_values, has_headers
    cdef const int32_t *list_bounds
    cdef const uint8_t *list_valid
    cdef Py_ssize_t list_first
    cdef const int64_t *timestamps
    cdef Py_ssize_t timestamps_first
    cdef int64_t timestamp_ms

    def __cinit__(self, Py_ssize_t count, values, keys=None, headers=None, timestamps=None, int64_t timestamp_ms=0):
        self.held = 0
        if count < 0:
            raise ValueError("a negative number of rows")
        self.count = count
        self.has_values = values is not None
        if self.has_values:
            self._hold_entries(values, &self.values, count)
        self.has_keys = keys is not None
        if self.has_keys:
            self._hold_entries(keys, &self.keys, count)
        self.has_headers = headers is not None
        if self.has_headers:
            bounds, valid, first, header_keys, header_values = headers
            self.list_first = first
            if self.list_first < 0:
                raise ValueError("a column begins before its first entry")
            self.list_bounds = <const int32_t *> self._hold(bounds, (self.list_first + count + 1) * 4)
            self.list_valid = NULL
            if valid is not None:
                self.list_valid = <const uint8_t *> self._hold(valid, (self.list_first + count + 7) // 8)
            self._hold_entries(header_keys, &self.header_keys, -1)
            self._hold_entries(header_values, &self.header_values, -1)
        self.timestamps = NULL
        self.timestamp_ms = timestamp_ms
        if timestamps is not None:
            numbers, first = timestamps
            self.timestamps_first = first
            if self.timestamps_first < 0:
                raise ValueError("a column begins before its first entry")
            self.timestamps = <const int64_t *> self._hold(numbers, (self.timestamps_first + count) * 8)

    cdef const void *_hold(self, owner, Py_ssize_t size) except? NULL:
        PyObject_GetBuffer(owner, &self.views[self.held], PyBUF_SIMPLE)
        self.held += 1
        if self.views[self.held - 1].len < size:
            raise ValueError("a buffer is shorter than the column")
        return self.views[self.held - 1].buf

    cdef int _hold_entries(self, column, Entries *entries, Py_ssize_t count) except -1:
        cdef Py_ssize_t entries_count
        bounds, data, valid, first = column
        entries.first = first
        if entries.first < 0:
            raise ValueError("a column begins before its first entry")
        if count < 0:
            # The entries of lists: as many as there are bounds.
            entries.bounds = <const int32_t *> self._hold(bounds, 4)
            entries_count = self.views[self.held - 1].len // 4 - 1 - entries.first
            entries.count = max(entries_count, 0)
        else:
            entries.bounds = <const int32_t *> self._hold(bounds, (entries.first + count + 1) * 4)
            entries.count = count
        entries.data = <const uint8_t *> self._hold(data, 0)
        entries.size = self.views[self.held - 1].len
        entries.valid = NULL
        if valid is not None:
            entries.valid = <const uint8_t *> self._hold(valid, (entries.first + entries.count + 7) // 8)
        return 0

    def __dealloc__(self):
        cdef int index
        for index in range(self.held):
            PyBuffer_Release(&self.views[index])

    def place(self, partitions, int32_t partition_count, bint by_crc32):
        cdef Py_buffer view
        cdef int32_t *places
        cdef const uint8_t *key
        cdef int64_t length
        cdef Py_ssize_t row = 0, left = 0
        cdef RowFlaw flaw = ROW_IS_FINE
        if partition_count < 1:
            raise ValueError("there are no partitions")
        PyObject_GetBuffer(partitions, &view, PyBUF_WRITABLE)
        try:
            if view.len < self.count * 4:
                raise ValueError("a buffer is shorter than the column")
            places = <int32_t *> view.buf
            with nogil:
                for row in range(self.count):
                    if places[row] >= 0:
                        continue
                    if not self.has_keys:
                        left += 1
                        continue
                    flaw = _entry(&self.keys, row, &key, &length)
                    if flaw != ROW_IS_FINE:
                        break
                    if length < 0 or (by_crc32 and length == 0):
                        left += 1
                    elif by_crc32:
                        places[row] = <int32_t> (_crc32(key, length) % <uint32_t> partition_count)
                    else:
                        places[row] = <int32_t> ((_murmur2(key, length) & 0x7FFFFFFF) % <uint32_t> partition_count)
        finally:
            PyBuffer_Release(&view)
        if flaw != ROW_IS_FINE:
            raise ValueError(f"row {row}: {_ROW_FLAWS[flaw]}")
        return left

    cdef inline RowFlaw _size(self, Py_ssize_t row, int64_t delta, Py_ssize_t number, int64_t *size) noexcept nogil:
        cdef const uint8_t *start
        cdef int64_t length, total
        cdef Py_ssize_t index, begin = 0, end = 0, place
        cdef RowFlaw flaw
        if row < 0 or row >= self.count:
            return ROW_NUMBER
        total = 1 + _varint_size(delta) + _varint_size(number)
        length = -1
        if self.has_keys:
            flaw = _entry(&self.keys, row, &start, &length)
            if flaw != ROW_IS_FINE:
                return flaw
        total += _varint_size(length) + max(length, 0)
        length = -1
        if self.has_values:
            flaw = _entry(&self.values, row, &start, &length)
            if flaw != ROW_IS_FINE:
                return flaw
        total += _varint_size(length) + max(length, 0)
        if self.has_headers:
            place = row + self.list_first
            if self.list_valid == NULL or self.list_valid[place >> 3] >> (place & 7) & 1:
                begin = self.list_bounds[place]
                end = self.list_bounds[place + 1]
                if begin < 0 or end < begin:
                    return ROW_BOUNDS
        total += _varint_size(end - begin)
        for index in range(begin, end):
            flaw = _entry(&self.header_keys, index, &start, &length)
            if flaw != ROW_IS_FINE:
                return flaw
            if length < 0:
                return ROW_HEADER_KEY
            total += _varint_size(length) + length
            flaw = _entry(&self.header_values, index, &start, &length)
            if flaw != ROW_IS_FINE:
                return flaw
            total += _varint_size(length) + max(length, 0)
        size[0] = total
        return ROW_IS_FINE

    cdef inline Py_ssize_t _put(self, uint8_t *out, Py_ssize_t position, const Entries *column, Py_ssize_t index) noexcept nogil:
        cdef const uint8_t *start = NULL
        cdef int64_t length = -1
        _entry(column, index, &start, &length)
        position = _write_varint(out, position, length)
        if length > 0:
            memcpy(out + position, start, length)
            position += length
        return position

    cdef inline Py_ssize_t _write(
        self, uint8_t *out, Py_ssize_t position, Py_ssize_t row, int64_t delta, Py_ssize_t number, int64_t size
    ) noexcept nogil:
        cdef Py_ssize_t index, begin = 0, end = 0, place
        position = _write_varint(out, position, size)
        out[position] = 0
        position = _write_varint(out, position + 1, delta)
        position = _write_varint(out, position, number)
        if self.has_keys:
            position = self._put(out, position, &self.keys, row)
        else:
            position = _write_varint(out, position, -1)
        if self.has_values:
            position = self._put(out, position, &self.values, row)
        else:
            position = _write_varint(out, position, -1)
        if self.has_headers:
            place = row + self.list_first
            if self.list_valid == NULL or self.list_valid[place >> 3] >> (place & 7) & 1:
                begin = self.list_bounds[place]
                end = self.list_bounds[place + 1]
        position = _write_varint(out, position, end - begin)
        for index in range(begin, end):
            position = self._put(out, position, &self.header_keys, index)
            position = self._put(out, position, &self.header_values, index)
        return position

    def encode(self, order, Py_ssize_t first, Py_ssize_t end, Py_ssize_t target_bytes, Py_ssize_t largest_bytes):
        cdef Py_buffer view
        cdef const int32_t *rows
        cdef Py_ssize_t next_ = first, total = 0, position = 0, index, row = 0
        cdef int64_t size = 0, base = 0, highest = 0, timestamp
        cdef RowFlaw flaw = ROW_IS_FINE
        cdef bytes body
        cdef uint8_t *out
        PyObject_GetBuffer(order, &view, PyBUF_SIMPLE)
        try:
            if first < 0 or end <= first or view.len < end * 4:
                raise ValueError("a range of rows that does not exist")
            rows = <const int32_t *> view.buf
            with nogil:
                for index in range(first, end):
                    row = rows[index]
                    timestamp = self.timestamp_ms
                    if self.timestamps != NULL and 0 <= row < self.count:
                        timestamp = self.timestamps[self.timestamps_first + row]
                    if index == first:
                        base = highest = timestamp
                    flaw = self._size(row, <int64_t> (<uint64_t> timestamp - <uint64_t> base), index - first, &size)
                    if flaw != ROW_IS_FINE:
                        break
                    size += _varint_size(size)
                    if size > largest_bytes:
                        flaw = ROW_TOO_LARGE
                        break
                    if index > first and total + size > target_bytes:
                        break
                    highest = max(highest, timestamp)
                    total += size
                    next_ = index + 1
            if flaw == ROW_TOO_LARGE:
                return 0, None, 0, 0, row, size
            if flaw != ROW_IS_FINE:
                raise ValueError(f"row {row}: {_ROW_FLAWS[flaw]}")
            body = PyBytes_FromStringAndSize(NULL, total)
            out = <uint8_t *> PyBytes_AS_STRING(body)
            with nogil:
                for index in range(first, next_):
                    row = rows[index]
                    timestamp = self.timestamp_ms if self.timestamps == NULL else self.timestamps[self.timestamps_first + row]
                    timestamp = <int64_t> (<uint64_t> timestamp - <uint64_t> base)
                    self._size(row, timestamp, index - first, &size)
                    position = self._write(out, position, row, timestamp, index - first, size)
        finally:
            PyBuffer_Release(&view)
        assert position == total
        return next_, body, base, highest, 0, 0


def rows_by_partition(partitions, Py_ssize_t count, int32_t partition_count):
    cdef Py_buffer view
    cdef const int32_t *places
    cdef array order, starts
    cdef int32_t *rows
    cdef int32_t *bounds
    cdef Py_ssize_t row = 0
    cdef int32_t partition
    cdef bint is_wrong = False
    if partition_count < 1:
        raise ValueError("there are no partitions")
    PyObject_GetBuffer(partitions, &view, PyBUF_SIMPLE)
    try:
        if count < 0 or view.len < count * 4:
            raise ValueError("a buffer is shorter than the column")
        places = <const int32_t *> view.buf
        order = clone(_INT32, count, False)
        starts = clone(_INT32, partition_count + 2, True)
        rows = <int32_t *> order.data.as_voidptr
        bounds = <int32_t *> starts.data.as_voidptr
        with nogil:
            for row in range(count):
                if places[row] < 0 or places[row] >= partition_count:
                    is_wrong = True
                    break
                bounds[places[row] + 2] += 1
            if not is_wrong:
                for partition in range(2, partition_count + 2):
                    bounds[partition] += bounds[partition - 1]
                for row in range(count):
                    rows[bounds[places[row] + 1]] = <int32_t> row
                    bounds[places[row] + 1] += 1
    finally:
        PyBuffer_Release(&view)
    if is_wrong:
        raise ValueError(f"row {row}: {_ROW_FLAWS[PARTITION_NUMBER]}")
    return memoryview(order), memoryview(starts)[: partition_count + 1]
