#!/bin/sh
# Builds the jar of klamm.spark.checkpoints with the JDK at hand, against the Hadoop of the PySpark in a virtual environment.
# Usage: sh tools/build_checkpoint_jar.sh .venv
set -eu

venv=$1
folder=src/klamm/spark/checkpoints
javac=javac
jar=jar
if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/javac" ]; then
    javac=$JAVA_HOME/bin/javac
    jar=$JAVA_HOME/bin/jar
fi
command -v "$javac" >/dev/null || {
    echo "the checkpoint jar needs a JDK of version 17 or later: there is no javac here" >&2
    exit 1
}
jars=$("$venv/bin/python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
"$javac" --release 17 -cp "$jars/*" -d "$classes" "$folder"/java/dev/klamm/checkpoints/*.java
# Into its place in one step: a session that starts meanwhile has the old jar or the new one.
"$jar" --create --file "$folder/klamm-checkpoints.jar.new" -C "$classes" .
mv "$folder/klamm-checkpoints.jar.new" "$folder/klamm-checkpoints.jar"
