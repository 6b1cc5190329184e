"""Fetch, as the broker reads and answers it; written by hand, because consumers and followers live from it.

4: isolation level. 5: log start offset. 7: fetch sessions (KIP-227). 9: current leader epoch (KIP-320). 10: zstd
allowed. 11: rack, preferred read replica (KIP-392). 12: flexible, last fetched epoch, diverging epoch (KIP-595).
13: topic ids in place of names (KIP-516). 15: replica state in place of the replica id (KIP-903). 16: node endpoints in
the answer (KIP-951). 17: replica directory id (KIP-853). 18: the follower's high watermark (KIP-1166).
Layout: FetchRequest.json and FetchResponse.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from klamm.protocol.fetch_messages import (
    NO_HIGH_WATERMARK,
    Buffers,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response

__all__ = [
    "Buffers",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicResponse",
    "ForgottenTopic",
    "NO_HIGH_WATERMARK",
    "decode_fetch_request",
    "encode_fetch_response",
]
