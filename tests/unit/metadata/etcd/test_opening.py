"""Tests that a store in etcd says which packages it needs."""

from __future__ import annotations

import asyncio
import sys

import pytest

from klamm.metadata.etcd.opening import open_etcd_store
from klamm.metadata.metadata_store import MetadataStoreError


@pytest.mark.parametrize("package", ["grpc", "google.protobuf"])
def test_a_missing_package_is_explained(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Without the packages of the extra, the message says how to install it."""
    for name in list(sys.modules):
        if name.startswith("klamm.metadata.etcd.etcd_") or name.startswith(package):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MetadataStoreError, match=r"needs the extra cluster: pip install '\.\[cluster\]'"):
        asyncio.run(open_etcd_store("etcd://127.0.0.1:1/p", session_timeout_s=9))
