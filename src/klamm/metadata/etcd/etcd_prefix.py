"""Refuses a prefix that lies within the prefix of another store.

The brokers of the outer store watch all keys under their prefix. Keys of an inner store would be entries of an unknown
kind to them, so all of them would end, and none would start again.
"""

from __future__ import annotations

import grpc

from klamm.metadata.entries import CLUSTER_KEY
from klamm.metadata.etcd.etcd_client import RANGE, EtcdClient
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.metadata.metadata_version import UNFINISHED

__all__ = ["refuse_inner_prefix"]


def refuse_inner_prefix(client: EtcdClient) -> None:
    """Raises MetadataStoreError if the prefix is within that of another store, or if etcd does not answer. Blocks.

    A user of etcd who may not read the outer prefix is not refused.
    """
    prefix = client.address.prefix
    outer = prefix
    while "/" in outer:
        outer = outer.rpartition("/")[0]
        if any(_has_key(client, f"/{outer}/{key}") for key in (CLUSTER_KEY, UNFINISHED)):
            raise MetadataStoreError(
                f"the prefix {prefix!r} is within the prefix {outer!r} of another metadata store, whose brokers can't "
                f"understand keys there: nothing was changed. Name a prefix that does not begin with {outer}/"
            )


def _has_key(client: EtcdClient, key: str) -> bool:
    try:
        return client.call(RANGE, messages.RangeRequest(key=key.encode(), count_only=True)).count > 0
    except EtcdCallFailed as error:
        if error.code is grpc.StatusCode.PERMISSION_DENIED:
            return False
        raise
