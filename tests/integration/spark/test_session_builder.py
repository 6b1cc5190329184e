"""The settings of klamm's Spark session."""

from __future__ import annotations

import subprocess
import sys


def test_importing_klamm_spark_imports_no_pyspark() -> None:
    """Importing klamm.spark does not import pyspark or pyarrow."""
    code = "import sys, klamm.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_pyspark_the_error_says_what_to_install() -> None:
    """Without pyspark, using klamm.spark raises an error that says what to install."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import klamm, klamm.spark\n"
        "for use in (lambda: klamm.spark.session(), lambda: klamm.spark.KlammDataSource):\n"
        "    try: use()\n"
        "    except klamm.KlammError as error: assert \"pip install '.[spark]'\" in str(error)\n"
        "    else: sys.exit('no error')\n"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
