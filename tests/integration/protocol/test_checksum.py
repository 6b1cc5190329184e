"""What the checksum costs an import."""

from __future__ import annotations

import subprocess
import sys


def test_import_is_light() -> None:
    """A broker's start doesn't pay for the package's command line."""
    code = "import sys, klamm.protocol.record_batch as _; print(*{'argparse', 'email', 'zipfile'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
