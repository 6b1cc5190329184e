# Finds records without a key, out of sequence, or by timestamp; see RecordQuery in klamm.protocol.record_scanner.

cdef struct Query:
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int64_t oldest
    int64_t newest
    bint is_inside
    bint without_key
    bint out_of_sequence
    int32_t first_offset_delta


cdef struct Found:
    int64_t index
    int32_t offset_delta
    int64_t timestamp
    int64_t key_length
    int64_t value_length


cdef inline Flaw _find_next(
    const uint8_t *data, Py_ssize_t end, const Query *query,
    Py_ssize_t *position, Py_ssize_t *index, Py_ssize_t end_index, Found *found, bint *is_found
) noexcept nogil:
    """Reads on until after the next record that matches, or up to the record at `end_index`."""
    cdef Py_ssize_t place, record_end
    cdef int32_t length, offset_delta, key_start, key_end, value_start, value_end
    cdef int64_t timestamp
    cdef Flaw flaw = NO_FLAW
    is_found[0] = False
    while index[0] < end_index:
        place = _read_varint(data, position[0], end, &length)
        if place < 0:
            return FIELD
        if length < 0 or length > end - place:
            return RECORD_LENGTH
        record_end = place + length
        place = _read_varlong(data, place + 1, record_end, &timestamp)
        if place < 0:
            return FIELD
        place = _read_varint(data, place, record_end, &offset_delta)
        if place < 0:
            return FIELD
        place = _skip_field(data, place, record_end, &key_start, &key_end)
        if place < 0:
            return FIELD
        place = _skip_field(data, place, record_end, &value_start, &value_end)
        if place < 0 or place >= record_end:
            return FIELD
        if data[place]:
            place = _skip_headers(data, place, record_end, &flaw)
            if place < 0:
                return flaw
        else:
            place += 1
        if place != record_end:
            return RECORD_END
        if query.has_append_time:
            timestamp = query.append_time
        else:
            timestamp = <int64_t> (<uint64_t> query.base_timestamp + <uint64_t> timestamp)
        if offset_delta >= query.first_offset_delta and (
            (query.without_key and key_end < 0)
            or _has_time(query, timestamp)
            or (query.out_of_sequence and offset_delta != index[0])
        ):
            found.index = index[0]
            found.offset_delta = offset_delta
            found.timestamp = timestamp
            found.key_length = -1 if key_end < 0 else key_end - key_start
            found.value_length = -1 if value_end < 0 else value_end - value_start
            is_found[0] = True
        position[0] = record_end
        index[0] += 1
        if is_found[0]:
            return NO_FLAW
    return NO_FLAW


cdef inline bint _has_time(const Query *query, int64_t timestamp) noexcept nogil:
    if query.is_inside:
        return query.oldest <= timestamp <= query.newest
    return timestamp != -1 and not query.oldest <= timestamp <= query.newest


def find_records(body, query, Py_ssize_t position, Py_ssize_t index, Py_ssize_t end_index, Py_ssize_t max_found):
    cdef Py_buffer buffer
    cdef Query wanted
    cdef Found found
    cdef bint is_found
    cdef Flaw flaw = NO_FLAW
    cdef list all_found = []
    wanted.base_timestamp = query.base_timestamp
    wanted.has_append_time = query.append_time is not None
    wanted.append_time = query.append_time if wanted.has_append_time else 0
    wanted.oldest = query.oldest
    wanted.newest = query.newest
    wanted.is_inside = query.is_inside
    wanted.without_key = query.without_key
    wanted.out_of_sequence = query.out_of_sequence
    wanted.first_offset_delta = query.first_offset_delta
    PyObject_GetBuffer(body, &buffer, PyBUF_SIMPLE)
    try:
        if buffer.len > 0x7FFFFFFF or not 0 <= position <= buffer.len:
            raise ValueError("a position outside of the body, or a body of more than two gigabytes")
        while index < end_index and len(all_found) < max_found:
            with nogil:
                flaw = _find_next(
                    <const uint8_t *> buffer.buf, buffer.len, &wanted, &position, &index, end_index, &found, &is_found
                )
            if flaw != NO_FLAW:
                break
            if is_found:
                all_found.append(
                    (found.index, found.offset_delta, found.timestamp, found.key_length, found.value_length)
                )
        return position, index, all_found, None if flaw == NO_FLAW else _FLAWS[flaw]
    finally:
        PyBuffer_Release(&buffer)
