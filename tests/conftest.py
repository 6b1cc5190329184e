"""What has to be at the top of the tests: pytest takes plugins from nowhere else."""

from __future__ import annotations

pytest_plugins = ["pytester"]  # tests/unit/testing runs pytest to test klamm's plugin
