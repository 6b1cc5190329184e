"""The settings of klamm's Spark session."""

from __future__ import annotations

import subprocess
import sys

from klamm.spark.session_builder import settings_for


def test_a_local_session_shuffles_into_as_many_parts_as_it_has_threads() -> None:
    """`local[2,4]` has two threads and four attempts a task."""
    assert settings_for("local[2,4]")["spark.sql.shuffle.partitions"] == "2"
    assert settings_for("local")["spark.sql.shuffle.partitions"] == "1"
    assert int(settings_for("local[*]")["spark.sql.shuffle.partitions"]) >= 1


def test_a_cluster_keeps_its_own_driver_address_and_shuffle() -> None:
    """They are the cluster's business."""
    settings = settings_for("spark://master:7077")

    assert "spark.driver.host" not in settings
    assert "spark.sql.shuffle.partitions" not in settings


def test_importing_klamm_spark_imports_no_pyspark() -> None:
    """Only using it does."""
    code = "import sys, klamm.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_pyspark_the_error_says_what_to_install() -> None:
    """In one line, where the name is used."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import klamm, klamm.spark\n"
        "for use in (lambda: klamm.spark.session(), lambda: klamm.spark.KlammDataSource):\n"
        "    try: use()\n"
        "    except klamm.KlammError as error: assert \"pip install '.[spark]'\" in str(error)\n"
        "    else: sys.exit('no error')\n"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
