"""The cost of the configuration at start."""

from __future__ import annotations

import subprocess
import sys


def test_a_start_without_settings_does_not_read_the_table() -> None:
    """A start without settings does not read the table of four hundred configuration keys, which would take time."""
    program = (
        "import sys; from klamm.config.broker_config import BrokerConfig; BrokerConfig.load(environ={'PATH': '/'}); "
        "from klamm.config import table; print(table._data.cache_info().currsize)"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "0"
