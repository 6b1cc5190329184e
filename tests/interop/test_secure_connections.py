"""Tests klamm's client with TLS and SASL listeners of Apache Kafka: right settings connect, wrong ones give a clear
error.

The tests run the blocking client, and the asyncio client on either event loop. The commands that inspect groups are
tested too, with librdkafka's properties.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from tests.integration.cli.conftest import Command
from tests.support.secure_kafka import KEY_PASSWORD, MECHANISMS, PASSWORD, SecureKafka, secure_kafka

from klamm.client import aio_fetch
from klamm.client.aio import AsyncConnection
from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.connection import Connection
from klamm.client.errors import AuthenticationFailed, ConnectionFailed, GaveUp
from klamm.client.fetch import stream_batches
from klamm.client.list_offsets import LATEST, list_offsets, listing_offsets
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """The broker of all tests in this file."""
    with secure_kafka(tmp_path_factory.mktemp("certificates")) as running:
        yield running


def _blocking(options: dict[str, str]) -> str | None:
    with contextlib.closing(Cluster(ClientConfig.from_mapping(options))) as cluster:
        cluster.refresh([])
        return cluster.cluster_id


async def _refresh(options: dict[str, str]) -> str | None:
    with contextlib.closing(AsyncCluster(ClientConfig.from_mapping(options))) as cluster:
        await cluster.refresh([])
        return cluster.cluster_id


def _asyncio(options: dict[str, str]) -> str | None:
    return asyncio.run(_refresh(options))


def _uvloop(options: dict[str, str]) -> str | None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_refresh(options))


JKS_PASSWORD = "of-the-store"
JKS_PASS = f"pass:{JKS_PASSWORD}"  # as openssl takes it

all_faces = pytest.mark.parametrize("connect", [_blocking, _asyncio, _uvloop])
Connect = Callable[[dict[str, str]], str | None]


@all_faces
@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "ssl_enabled_protocols": "TLSv1.2",
            "ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        },
        {"ssl_enabled_protocols": "TLSv1.3"},
    ],
)
def test_tls(kafka: SecureKafka, connect: Connect, more: dict[str, str]) -> None:
    """A TLS connection succeeds when a trusted authority signed the broker's certificate and the certificate names the
    host."""
    assert connect(kafka.options("TLS", **more)) is not None


@all_faces
def test_certificates_as_text(kafka: SecureKafka, connect: Connect) -> None:
    """The options may contain trusted certificates, key and chain as text, with blanks instead of line ends."""
    text = kafka.authority.certificate.read_text().replace("\n", " ")
    options = kafka.options("MUTUAL", ssl_truststore_certificates=text, ssl_keystore_type="PEM")
    del options["ssl.truststore.location"]
    store = kafka.client_store.read_text()
    end_of_key = store.index("-----BEGIN CERTIFICATE")
    options |= {
        "ssl.keystore.key": store[:end_of_key],
        "ssl.keystore.certificate.chain": store[end_of_key:],
        "ssl.key.password": KEY_PASSWORD,
    }

    assert connect(options) is not None


@all_faces
def test_a_certificate_of_the_client(kafka: SecureKafka, connect: Connect) -> None:
    """A listener with mutual TLS accepts a client certificate of its authority, and refuses other certificates or
    none."""
    mine = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(kafka.client_store)}
    strange = mine | {"ssl_keystore_location": str(kafka.stranger_store)}

    assert connect(kafka.options("MUTUAL", **mine, ssl_key_password=KEY_PASSWORD)) is not None
    for refused in ({}, strange):
        with pytest.raises(AuthenticationFailed, match=r"refused the TLS handshake.*ssl\.keystore\.location"):
            connect(kafka.options("MUTUAL", **refused))


@all_faces
def test_stores_of_java_that_were_converted(kafka: SecureKafka, connect: Connect, tmp_path: Path) -> None:
    """JKS stores of keytool work after the conversion to PEM with the commands of the guide."""
    source, password = kafka.client_store, KEY_PASSWORD
    p12, keystore, truststore = (tmp_path / name for name in ("made.p12", "keystore.jks", "truststore.jks"))
    _run(
        f"openssl pkcs12 -export -in {source} -out {p12} -name me", "-passin", f"pass:{password}", "-passout", JKS_PASS
    )
    _run(
        f"keytool -importkeystore -srckeystore {p12} -destkeystore {keystore} -deststoretype JKS",
        *("-srcstorepass", JKS_PASSWORD, "-deststorepass", JKS_PASSWORD),
    )
    _run(
        f"keytool -importcert -noprompt -alias ca -file {kafka.authority.certificate} -keystore {truststore}",
        *("-storetype", "JKS", "-storepass", JKS_PASSWORD),
    )

    (tmp_path / "truststore.pem").write_text(
        _run(f"keytool -list -rfc -keystore {truststore}", "-storepass", JKS_PASSWORD), encoding="utf-8"
    )
    _run(
        f"keytool -importkeystore -srckeystore {keystore} -destkeystore {tmp_path / 'keystore.p12'}",
        *("-deststoretype", "PKCS12", "-srcstorepass", JKS_PASSWORD, "-deststorepass", JKS_PASSWORD),
    )
    _run(
        f"openssl pkcs12 -in {tmp_path / 'keystore.p12'} -out {tmp_path / 'keystore.pem'}",
        *("-passin", JKS_PASS, "-passout", JKS_PASS),
    )

    options = kafka.options(
        "MUTUAL",
        ssl_truststore_location=str(tmp_path / "truststore.pem"),
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(tmp_path / "keystore.pem"),
        ssl_key_password=JKS_PASSWORD,
    )
    assert connect(options) is not None


def _run(command: str, *more: str) -> str:
    completed = subprocess.run([*command.split(), *more], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr + completed.stdout
    return completed.stdout


@all_faces
def test_another_authority(kafka: SecureKafka, connect: Connect) -> None:
    """The client refuses a broker whose certificate no trusted authority signed; the error names the truststore."""
    with pytest.raises(AuthenticationFailed, match=r"not accepted.*other-authority\.pem.*ssl\.truststore\.location"):
        connect(kafka.options("TLS", ssl_truststore_location=str(kafka.other_authority.certificate)))


@all_faces
def test_another_host_name(kafka: SecureKafka, connect: Connect) -> None:
    """The certificate must name the requested host, unless the check is turned off."""
    address = kafka.broker.addresses["TLS"].replace("localhost", "127.0.0.1")

    with pytest.raises(AuthenticationFailed, match=r"not valid for '127\.0\.0\.1'.*made out to other names"):
        connect(kafka.options("TLS", bootstrap_servers=address))
    assert (
        connect(kafka.options("TLS", bootstrap_servers=address, ssl_endpoint_identification_algorithm="")) is not None
    )


@all_faces
@pytest.mark.parametrize("listener", ["SASL_TLS", "SASL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_name_and_password(kafka: SecureKafka, connect: Connect, mechanism: str, listener: str) -> None:
    """The right password connects. A wrong password fails without a retry, and the error does not show the password."""
    assert connect(kafka.sasl_options(listener, mechanism)) is not None
    with pytest.raises(AuthenticationFailed, match=f"'alice'.*{mechanism}: SASL_AUTHENTICATION_FAILED") as refused:
        connect(kafka.sasl_options(listener, mechanism, "a guess"))
    assert "guess" not in str(refused.value)


@all_faces
@pytest.mark.parametrize(("speaks", "listener"), [("PLAINTEXT", "TLS"), ("PLAINTEXT", "SASL"), ("SSL", "PLAINTEXT")])
def test_another_security_protocol(kafka: SecureKafka, connect: Connect, speaks: str, listener: str) -> None:
    """A broker with another security protocol closes the connection, like a broker that restarts. The client retries
    until its timeout, and the error names the likely cause."""
    options = kafka.options(listener, security_protocol=speaks, default_api_timeout_ms="500")

    with pytest.raises(GaveUp, match=f"is its listener one for security.protocol={speaks}"):
        connect(options)


def test_a_mechanism_that_the_listener_does_not_have(kafka: SecureKafka) -> None:
    """A connection with SASL to a listener without SASL fails, and the error names the cause."""
    options = kafka.sasl_options("SASL", "PLAIN") | {"bootstrap.servers": kafka.broker.bootstrap_servers}

    with pytest.raises(AuthenticationFailed, match="does not take SASL on this listener"):
        _blocking(options)


def _fill(kafka: SecureKafka) -> TopicPartition:
    name = f"secure-{uuid.uuid4().hex[:12]}"
    producer = Producer({"bootstrap.servers": kafka.broker.bootstrap_servers, "batch.num.messages": 10})
    for number in range(100):
        producer.produce(name, b"x" * 1_000 + b"%d" % number, partition=0)
    assert producer.flush(60) == 0
    return TopicPartition(name, PartitionIndex(0))


def test_records_through_tls(kafka: SecureKafka) -> None:
    """The client reads answers that span many TLS records, with several requests in flight."""
    partition = _fill(kafka)
    config = ClientConfig.from_mapping(
        kafka.sasl_options("SASL_TLS", "SCRAM-SHA-256") | {"max.partition.fetch.bytes": "20000"}
    )

    with contextlib.closing(Cluster(config)) as cluster:
        end = list_offsets(cluster, {partition: LATEST})[partition].offset
        ends = [part.next_offset for part in stream_batches(cluster, partition, Offset(0), end)]

    async def stream() -> list[Offset]:
        with contextlib.closing(AsyncCluster(config)) as cluster:
            end = (await cluster.run(listing_offsets(cluster, {partition: LATEST})))[partition].offset
            return [part.next_offset async for part in aio_fetch.stream_batches(cluster, partition, Offset(0), end)]

    for all_ends in (ends, asyncio.run(stream())):
        assert len(all_ends) > 1
        assert all_ends[-1] == 100


@pytest.fixture
def renewing_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes connections renew their sessions at half time. The rest is seconds, so that a busy machine is not too
    late."""
    monkeypatch.setattr("klamm.client.conversation._SHARE_OF_SESSION_LIFETIME", (0.4, 0.5))


def _connection_that_does_not_renew(kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> Connection:
    config = ClientConfig.from_mapping(kafka.sasl_options("SASL", "SCRAM-SHA-512"))
    connection = Connection(config.bootstrap_servers[0], config)
    monkeypatch.setattr(connection._conversation, "reauthentication", lambda: None)
    return connection


def _is_ended(connection: Connection) -> bool:
    try:
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
    except ConnectionFailed:
        return True
    return False


@pytest.mark.usefixtures("renewing_early")
def test_a_session_that_ends_is_renewed(kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client authenticates again before its session ends, and keeps its connection. The broker closes a connection
    that does not authenticate again (KIP-368)."""
    config = ClientConfig.from_mapping(kafka.sasl_options("SASL_TLS", "SCRAM-SHA-512"))
    connection = Connection(config.bootstrap_servers[0], config)
    other = _connection_that_does_not_renew(kafka, monkeypatch)

    while not _is_ended(other):
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
    connection.request(MetadataRequest(topics=[]), MetadataResponse)

    connection.close()


@pytest.mark.usefixtures("renewing_early")
def test_a_session_is_renewed_between_requests_under_way(kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """The asyncio client holds back new requests while it authenticates again, and loses no answer to an earlier
    request."""
    config = ClientConfig.from_mapping(kafka.sasl_options("SASL_TLS", "SCRAM-SHA-512"))
    other = _connection_that_does_not_renew(kafka, monkeypatch)

    async def ask_one_after_the_other(connection: AsyncConnection) -> int:
        answers = 0
        while not other.is_closed:
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)
            answers += 1
        return answers

    async def run() -> list[int]:
        connection = await AsyncConnection.open(config.bootstrap_servers[0], config)
        asking = [asyncio.create_task(ask_one_after_the_other(connection)) for _ in range(10)]
        while not await asyncio.to_thread(_is_ended, other):
            pass
        answers = await asyncio.gather(*asking)
        await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        connection.close()
        return answers

    assert all(asyncio.run(run()))


# The commands, with librdkafka's properties.


@pytest.fixture(scope="module")
def group(kafka: SecureKafka) -> str:
    """The id of an empty consumer group. klamm's own client shows the group's epoch, and librdkafka does not."""
    partition, name = _fill(kafka), f"group-{uuid.uuid4().hex[:12]}"
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.broker.bootstrap_servers,
            "group.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([partition.topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    consumer.close()
    return name


def _command(kafka: SecureKafka, listener: str) -> Command:
    return Command(kafka.options(listener)["bootstrap.servers"])


def _given(properties: dict[str, str]) -> list[str]:
    return [word for key, text in properties.items() for word in ("-X", f"{key}={text}")]


def _properties(kafka: SecureKafka, listener: str) -> dict[str, str]:
    """Returns librdkafka's properties for a connection to the listener."""
    with_authority = {"ssl.ca.location": str(kafka.authority.certificate)}
    name_and_password = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
    of_the_client = {
        "ssl.certificate.location": str(kafka.client_store),
        "ssl.key.location": str(kafka.client_store),
        "ssl.key.password": KEY_PASSWORD,
    }
    return {
        "TLS": {"security.protocol": "SSL", **with_authority},
        "MUTUAL": {"security.protocol": "ssl", **with_authority, **of_the_client},
        "SASL_TLS": {"security.protocol": "SASL_SSL", **with_authority, **name_and_password},
        "SASL": {"security.protocol": "SASL_PLAINTEXT", **name_and_password},
    }[listener]


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "SASL_TLS", "SASL"])
def test_a_group_is_described(kafka: SecureKafka, group: str, listener: str) -> None:
    """`group describe` shows the epoch of a group, so klamm's own client connects with librdkafka's properties."""
    described = _command(kafka, listener).done("group", "describe", group, *_given(_properties(kafka, listener)))

    assert re.match(rf"group {group}: empty, epoch \d+\b", described)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "SASL_TLS", "SASL"])
def test_transactions_are_listed(kafka: SecureKafka, listener: str) -> None:
    """`txn list`, which needs klamm's own client, connects with librdkafka's properties."""
    transactional_id = f"transactional-{uuid.uuid4().hex[:12]}"
    producer = Producer({"bootstrap.servers": kafka.broker.bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(60)

    listed = _command(kafka, listener).done("txn", "list", *_given(_properties(kafka, listener)))

    assert transactional_id in listed


def test_a_group_is_described_by_librdkafka_alone(kafka: SecureKafka) -> None:
    """`group describe` works without the epoch when klamm's own client does not support one of the properties."""
    partition, name = _fill(kafka), f"group-{uuid.uuid4().hex[:12]}"
    consumer = Consumer({"bootstrap.servers": kafka.broker.bootstrap_servers, "group.id": name})
    consumer.commit(offsets=[Place(partition.topic, 0, 5)], asynchronous=False)
    consumer.close()
    anybody = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}

    described = _command(kafka, "TLS").done("group", "describe", name, *_given(anybody))

    assert described.startswith(f"group {name}: empty, 0 members, lag 95\n")
