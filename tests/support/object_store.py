"""A server with the protocol of S3 in this process, for tests of folders in object stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from moto.server import ThreadedMotoServer

__all__ = ["SECRET", "ObjectStore", "object_store"]

_KEY: Final = "a-key"
SECRET: Final = "a-very-secret-word"
_REGION: Final = "us-east-1"
_BUCKET: Final = "bucket"


class ObjectStore(NamedTuple):
    """A store with one bucket."""

    address: str

    def uri(self, path: str, scheme: str = "s3") -> str:
        """Returns a URI for `pyarrow.fs` that holds the endpoint and the credentials."""
        return (
            f"{scheme}://{_KEY}:{SECRET}@{_BUCKET}/{path}?scheme=http&region={_REGION}&endpoint_override={self.address}"
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment in which a plain URI such as `s3a://bucket/path` leads to this store."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ENDPOINT_URL": f"http://{self.address}",
        }

    def names(self) -> list[str]:
        """Returns the names of all objects in the bucket, without those that only mark a folder."""
        from pyarrow import fs

        files = fs.S3FileSystem(
            access_key=_KEY, secret_key=SECRET, region=_REGION, scheme="http", endpoint_override=self.address
        )
        found = files.get_file_info(fs.FileSelector(_BUCKET, recursive=True))
        return sorted(each.path.removeprefix(f"{_BUCKET}/") for each in found if each.is_file)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Runs a store while the context is open."""
    from pyarrow import fs

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = ObjectStore(f"{host}:{port}")
        fs.S3FileSystem(
            access_key=_KEY,
            secret_key=SECRET,
            region=_REGION,
            scheme="http",
            endpoint_override=store.address,
            allow_bucket_creation=True,
        ).create_dir(_BUCKET)
        yield store
    finally:
        server.stop()
