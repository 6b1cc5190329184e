"""The memory of the process: the allocator of the C library, and Python's garbage collector."""
