"""Opens the metadata store of a cluster by its URL, if the packages for it are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.metadata.metadata_store import MetadataStoreError

if TYPE_CHECKING:
    from klamm.metadata.etcd.etcd_store import EtcdStore

__all__ = ["open_etcd_store"]


async def open_etcd_store(url: str, *, session_timeout_s: float) -> EtcdStore:
    """Opens a session with the store. Raises InvalidEtcdUrl, and MetadataStoreError if etcd or a package is missing."""
    from klamm.metadata.etcd.etcd_address import EtcdAddress

    address = EtcdAddress.parse(url)
    try:
        from klamm.metadata.etcd.etcd_store import EtcdStore
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in ("grpc", "google"):
            raise
        raise MetadataStoreError(
            "a metadata store in etcd needs the extra cluster: pip install '.[cluster]' in a clone of klamm "
            f"({error.name} is not installed)"
        ) from error
    return await EtcdStore.open(address, session_timeout_s=session_timeout_s)
