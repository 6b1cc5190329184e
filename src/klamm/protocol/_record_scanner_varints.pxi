# Integers of variable length; see klamm.protocol.varint.

cdef inline Py_ssize_t _read_varint(
    const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int32_t *number
) noexcept nogil:
    """Returns the position after the number, -1 if the number does not end before `end`."""
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
