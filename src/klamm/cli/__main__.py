"""`python -m klamm.cli`: the same as the `klamm` command."""

from __future__ import annotations

import sys

from klamm.cli.main import main

sys.exit(main())
