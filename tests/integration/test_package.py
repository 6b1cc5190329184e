"""The names in `import klamm`, and the cost of the import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import klamm


def _modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import klamm", "import klamm.testing", "import klamm.testing.pytest_plugin"])
def test_an_import_costs_next_to_nothing(statement: str) -> None:
    """An import loads no event loop, no client and no broker module before the broker is used.

    pytest, which the plugin needs, loads asyncio.
    """
    modules = _modules_after(statement)
    heavy = {"uvloop", "confluent_kafka", "cramjam", "crc32c", "rich", "sqlite3", "pyspark", "pandas"}
    if "pytest" not in modules:
        heavy.add("asyncio")
    assert not modules & heavy
    assert not {name for name in modules if name.startswith(("klamm.broker", "klamm.protocol", "klamm.storage"))}


def test_the_public_names_are_there() -> None:
    """The package exports exactly its public names."""
    assert set(klamm.__all__) == {"Broker", "KlammError", "__version__"}
    for name in klamm.__all__:
        assert getattr(klamm, name) is not None
    with pytest.raises(AttributeError, match="module 'klamm' has no attribute 'Castle'"):
        _ = klamm.Castle
