"""Folders of pyarrow.fs in several processes."""

from __future__ import annotations

import os

from klamm.spark.folders import folder_at


def test_a_child_process_opens_its_own_file_system() -> None:
    """A child process does not use the connections of its parent."""
    location = "mock:///parent"
    with folder_at(location).open_to_write("a") as file:
        file.write(b"content")
    child = os.fork()
    if not child:
        os._exit(folder_at(location).read("a") is not None)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
