#!/bin/sh
# Generates the messages of etcd's protocol in src/klamm/metadata/etcd/generated from etcd_messages.proto.
# Usage: sh tools/generate_etcd_messages.sh PYTHON, with grpcio-tools 1.76 in PYTHON's environment: the generated code
# then runs with protobuf 6.31 and later.
set -eu
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/../src"
"$python" -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. klamm/metadata/etcd/generated/etcd_messages.proto
