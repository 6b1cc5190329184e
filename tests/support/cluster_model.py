"""A small model of a cluster as a producer sees it: partitions that check sequences, and a transaction coordinator.

The model follows Apache Kafka 4.3 (`ProducerStateManager`, `ProducerAppendInfo`, `TransactionCoordinator`). It has no
I/O: it takes a request and returns the response. All brokers share the logs, as if every replica were in sync.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from klamm.client.config import Address
from klamm.client.conversation import Offers
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.node_endpoint import NodeEndpoint
from klamm.protocol.produce import (
    ProducePartitionResponse,
    ProduceTopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from klamm.protocol.record_batch import BatchHeader, batch_crc_is_valid, read_batch_header
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from klamm.protocol.schema.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.types import BrokerId

__all__ = ["OFFERS_V1", "OFFERS_V2", "TOPIC", "ClusterModel", "PartitionModel"]

TOPIC = "t"
TOPIC_ID = b"\x07" * 16
PRODUCE = 0
_REQUESTS: dict[int, type[Message]] = {
    cls.API_KEY or 0: cls
    for cls in (
        MetadataRequest,
        FindCoordinatorRequest,
        InitProducerIdRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
    )
}
_VERSIONS = {PRODUCE: (3, 13), **{key: cls.VERSIONS for key, cls in _REQUESTS.items()}}
OFFERS_V2 = Offers(_VERSIONS, {"transaction.version": 2}, 1)
OFFERS_V1 = Offers(_VERSIONS, {"transaction.version": 1}, 1)
_REMEMBERED_BATCHES = 5


@dataclass
class ProducerEntry:
    """The state of a producer id in a partition."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))
    """The first sequence, last sequence and base offset of each of the last batches."""
    last_sequence: int = -1


class PartitionModel:
    """A partition with its records, and the rules by which a leader accepts batches."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, int, bool | None]] = []
        """Value, producer id of the transaction (-1: none), and whether the transaction was committed (None: open)."""
        self.producers: dict[int, ProducerEntry] = {}
        self.largest_batch_bytes = 1 << 30

    def append(self, view: memoryview) -> tuple[ErrorCode, int]:
        """Appends a batch. Returns the error and the base offset."""
        header = read_batch_header(view)
        assert batch_crc_is_valid(view, 0, header), "a producer sent a batch with a wrong CRC"
        assert header.base_offset == 0
        assert header.size_bytes == len(view)
        if len(view) > self.largest_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.has_producer_id:
            code, base_offset = self._check(header)
            if code is not ErrorCode.NONE or base_offset >= 0:
                return code, base_offset
        base_offset = len(self.records)
        producer_id = header.producer_id if header.is_transactional else -1
        for record in decode_batch(view):
            assert record.value is not None
            self.records.append((record.value, producer_id, None if header.is_transactional else True))
        if header.has_producer_id:
            entry = self.producers[header.producer_id]
            entry.batches.append((header.base_sequence, header.last_sequence, base_offset))
            entry.last_sequence = header.last_sequence
        return ErrorCode.NONE, base_offset

    def _check(self, header: BatchHeader) -> tuple[ErrorCode, int]:
        entry = self.producers.get(header.producer_id)
        if entry is None:
            self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
            return ErrorCode.NONE, -1
        if header.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
            return ErrorCode.NONE, -1
        known = [batch for batch in entry.batches if batch[:2] == (header.base_sequence, header.last_sequence)]
        if not known and header.base_sequence != entry.last_sequence + 1:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, known[0][2] if known else -1

    def mark(self, producer_id: int, epoch: int, *, commits: bool) -> None:
        """Ends the producer's transaction, as a marker with this epoch does."""
        self.records = [
            (value, owner, commits if owner == producer_id and committed is None else committed)
            for value, owner, committed in self.records
        ]
        entry = self.producers.get(producer_id)
        if entry is None or epoch > entry.epoch:
            self.producers[producer_id] = ProducerEntry(epoch)

    def committed(self) -> list[bytes]:
        """Returns the values that a read_committed consumer reads."""
        return [value for value, _, committed in self.records if committed]


@dataclass
class TransactionModel:
    """The coordinator's state of one transactional id."""

    producer_id: int
    epoch: int
    last_epoch: int = -1
    state: str = "Empty"
    partitions: set[int] = field(default_factory=set)
    offsets: dict[int, int] = field(default_factory=dict)
    commits: bool = False


class ClusterModel:
    """A cluster of brokers 1 and 2, with one topic and one transaction coordinator."""

    def __init__(self, random: Random, partitions: int, *, second_protocol: bool) -> None:
        self.random = random
        self.offers = OFFERS_V2 if second_protocol else OFFERS_V1
        self.addresses: dict[int, Address] = {1: ("one", 9092), 2: ("two", 9092)}
        self.partitions = [PartitionModel() for _ in range(partitions)]
        self.leaders = [(1 + index % 2, 0) for index in range(partitions)]
        self.transactions: dict[str, TransactionModel] = {}
        self.group_offsets: dict[int, int] = {}
        self.error_rate = 0.0
        """The probability of a transient error in the answer to a request, before or after the request is applied."""
        self.hint_rate = 0.5
        """The probability that a broker that does not lead a partition names the leader (KIP-951)."""
        self.throttle_time_ms = 0
        """The throttle time in the responses to Produce requests."""
        self._next_producer_id = 100

    def move(self, index: int) -> None:
        """Elects the other broker as leader of the partition."""
        broker, epoch = self.leaders[index]
        self.leaders[index] = (3 - broker, epoch + 1)

    def settle(self) -> None:
        """Writes the markers of the transactions that are prepared to commit or to abort."""
        for transaction in self.transactions.values():
            if not transaction.state.startswith("Prepare"):
                continue
            for index in transaction.partitions:
                self.partitions[index].mark(transaction.producer_id, transaction.epoch, commits=transaction.commits)
            if transaction.commits:
                self.group_offsets.update(transaction.offsets)
            transaction.partitions, transaction.offsets = set(), {}
            transaction.state = transaction.state.replace("Prepare", "Complete")

    def answer(self, broker: int, api_key: int, version: int, body: bytes | bytearray) -> bytes:
        """Applies a request at this broker and returns the body of the broker's response."""
        if api_key == PRODUCE:
            return self._produce(broker, version, memoryview(bytes(body)))
        request, _ = decode(_REQUESTS[api_key], version, memoryview(bytes(body)))
        handlers = {
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._find_coordinator,
            InitProducerIdRequest: self._init_producer_id,
            AddPartitionsToTxnRequest: self._add_partitions,
            AddOffsetsToTxnRequest: self._add_offsets,
            EndTxnRequest: self._end,
            TxnOffsetCommitRequest: self._commit_offsets,
        }
        response: Message = handlers[type(request)](request, version)  # type: ignore[operator]
        return bytes(encode(response, version))

    def _transient(self, *codes: ErrorCode) -> ErrorCode | None:
        return self.random.choice(codes) if self.random.random() < self.error_rate else None

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        topic = MetadataResponseTopic(
            name=TOPIC,
            topic_id=TOPIC_ID,
            partitions=[
                MetadataResponsePartition(partition_index=index, leader_id=broker, leader_epoch=epoch)
                for index, (broker, epoch) in enumerate(self.leaders)
            ],
        )
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, (host, port) in self.addresses.items()
            ],
            topics=[topic],
        )

    # Produce.

    def _produce(self, broker: int, version: int, view: memoryview) -> bytes:
        request = decode_produce_request(version, view)
        answers = []
        endpoints: dict[int, NodeEndpoint] = {}
        for topic in request.topics:
            for index, records in topic.partitions:
                assert records is not None
                answer = self._produce_one(broker, version, request.transactional_id, index, records)
                if answer.current_leader is not None:
                    node_id = answer.current_leader[0]
                    endpoints[node_id] = NodeEndpoint(BrokerId(node_id), *self.addresses[node_id])
                answers.append(answer)
            response = [ProduceTopicResponse(topic.name, topic.topic_id, answers)]
        return encode_produce_response(
            version, response, throttle_time_ms=self.throttle_time_ms, node_endpoints=list(endpoints.values())
        )

    def _produce_one(
        self, broker: int, version: int, transactional_id: str | None, index: int, records: memoryview
    ) -> ProducePartitionResponse:
        leader, epoch = self.leaders[index]
        if broker != leader:
            # Not every broker knows the new leader yet.
            hint = (leader, epoch) if self.random.random() < self.hint_rate else None
            return ProducePartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)
        if code := self._transient(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE):
            return ProducePartitionResponse(index, code)
        header = read_batch_header(records)
        assert header.is_transactional == (transactional_id is not None)
        if transactional_id is not None:
            code = self._verify(transactional_id, header, index, adds=version >= 12)
            if code is not ErrorCode.NONE:
                return ProducePartitionResponse(index, code)
        code, base_offset = self.partitions[index].append(records)
        late = self._transient(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)
        if late is not None and code is ErrorCode.NONE:
            return ProducePartitionResponse(index, late)
        return ProducePartitionResponse(index, code, base_offset, log_start_offset=0)

    def _verify(self, transactional_id: str, header: BatchHeader, index: int, *, adds: bool) -> ErrorCode:
        transaction = self.transactions[transactional_id]
        if header.producer_id != transaction.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if header.producer_epoch != transaction.epoch:
            # A duplicate of a batch in the log gets the first answer again, without a check by the coordinator.
            return ErrorCode.NONE if self._is_known(header, index) else ErrorCode.INVALID_PRODUCER_EPOCH
        if index in transaction.partitions and transaction.state == "Ongoing":
            return ErrorCode.NONE
        if not adds:
            return ErrorCode.INVALID_TXN_STATE
        if transaction.state.startswith("Prepare"):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        transaction.state = "Ongoing"
        transaction.partitions.add(index)
        return ErrorCode.NONE

    def _is_known(self, header: BatchHeader, index: int) -> bool:
        entry = self.partitions[index].producers.get(header.producer_id)
        return entry is not None and any(
            (first, last) == (header.base_sequence, header.last_sequence) for first, last, _ in entry.batches
        )

    # The coordinator.

    def _find_coordinator(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        node_id = 1
        host, port = self.addresses[node_id]
        code = self._transient(ErrorCode.COORDINATOR_NOT_AVAILABLE) or ErrorCode.NONE
        key = request.coordinator_keys[0]
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=code)]
        )

    def _init_producer_id(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        if code := self._transient(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return InitProducerIdResponse(error_code=code)
        transaction = self.transactions.get(request.transactional_id or "")
        if transaction is None:
            self._next_producer_id += 1
            if request.transactional_id is not None:
                self.transactions[request.transactional_id] = TransactionModel(self._next_producer_id, 0)
            return InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)
        code = self._raise_epoch(transaction, request)
        if code is not ErrorCode.NONE:
            return InitProducerIdResponse(error_code=code)
        transaction.state = "Empty"
        return InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)

    def _raise_epoch(self, transaction: TransactionModel, request: InitProducerIdRequest) -> ErrorCode:
        if transaction.state.startswith("Prepare"):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if transaction.state == "Ongoing":
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, -1
            transaction.state, transaction.commits = "PrepareAbort", False
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if request.producer_id == -1:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, -1
        elif request.producer_epoch == transaction.epoch:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, transaction.epoch
        elif request.producer_epoch != transaction.last_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    def _join(self, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
        """Sets the transaction to ongoing for a request that adds partitions or offsets to it."""
        transaction = self.transactions[transactional_id]
        if code := self._transient(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            return code
        if producer_id != transaction.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != transaction.epoch:
            return ErrorCode.PRODUCER_FENCED
        if transaction.state.startswith("Prepare"):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        transaction.state = "Ongoing"
        return ErrorCode.NONE

    def _add_partitions(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        identifier = request.v3_and_below_transactional_id
        code = self._join(identifier, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        results = []
        for topic in request.v3_and_below_topics:
            if code is ErrorCode.NONE:
                self.transactions[identifier].partitions.update(topic.partitions)
            results.append(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
            )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def _add_offsets(self, request: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(
            error_code=self._join(request.transactional_id, request.producer_id, request.producer_epoch)
        )

    def _commit_offsets(self, request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
        transaction = self.transactions[request.transactional_id]
        if version >= 5:
            code = self._join(request.transactional_id, request.producer_id, request.producer_epoch)
        elif transaction.state != "Ongoing" or request.producer_epoch != transaction.epoch:
            code = ErrorCode.TRANSACTION_ABORTABLE
        else:
            code = self._transient(ErrorCode.COORDINATOR_NOT_AVAILABLE) or ErrorCode.NONE
        topics = []
        for topic in request.topics:
            if code is ErrorCode.NONE:
                transaction.offsets.update({each.partition_index: each.committed_offset for each in topic.partitions})
            topics.append(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                        for each in topic.partitions
                    ],
                )
            )
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        transaction = self.transactions[request.transactional_id]
        if code := self._transient(ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return EndTxnResponse(error_code=code)
        raises_epoch = version >= 5
        is_retry = raises_epoch and request.producer_epoch + 1 == transaction.epoch
        if request.producer_epoch != transaction.epoch and not is_retry:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        wanted = "Commit" if request.committed else "Abort"
        code = self._end_state(transaction, wanted, is_retry=is_retry, raises_epoch=raises_epoch)
        if code is not ErrorCode.NONE or not raises_epoch:
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.epoch)

    def _end_state(
        self, transaction: TransactionModel, wanted: str, *, is_retry: bool, raises_epoch: bool
    ) -> ErrorCode:
        if transaction.state == "Ongoing" and not is_retry:
            transaction.state, transaction.commits = f"Prepare{wanted}", wanted == "Commit"
        elif transaction.state.startswith("Prepare"):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        elif transaction.state == f"Complete{wanted}" and (is_retry or not raises_epoch):
            return ErrorCode.NONE
        elif raises_epoch and not is_retry and wanted == "Abort":
            # The client aborts a transaction without any partition or offset.
            transaction.state, transaction.commits = "PrepareAbort", False
        else:
            return ErrorCode.INVALID_TXN_STATE
        if raises_epoch:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, transaction.epoch
        return ErrorCode.NONE
