"""The import cost of the checksum."""

from __future__ import annotations

import subprocess
import sys


def test_import_is_light() -> None:
    """Importing the record batches does not load the modules of the checksum package's command line."""
    code = "import sys, klamm.protocol.record_batch as _; print(*{'argparse', 'email', 'zipfile'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
