"""The metadata store in etcd: the client, the session with its lease, the watch, and the store itself."""
