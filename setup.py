"""The one part of klamm that is compiled, and may be left out: see docs/adr/0012-a-compiled-record-scanner.md.

Everything else about the package is in pyproject.toml.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        # Where there is no compiler, or it fails, the installation goes on without: the same loops are there in Python.
        Extension(
            "klamm.protocol._record_scanner",
            ["src/klamm/protocol/_record_scanner.pyx"],
            depends=[
                "src/klamm/protocol/_record_scanner_columns.pxi",
                "src/klamm/protocol/_record_scanner_encode.pxi",
                "src/klamm/protocol/_record_scanner_find.pxi",
                "src/klamm/protocol/_record_scanner_table.pxi",
                "src/klamm/protocol/_record_scanner_varints.pxi",
            ],
            optional=True,
        )
    ]
)
