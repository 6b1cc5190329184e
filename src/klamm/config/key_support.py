"""klamm's support for each of Kafka's configuration keys, with its reason.

Each key has exactly one of three levels of support:

- honoured: the key has the same effect as in Kafka; a reason names narrower values.
- accepted: the key may be set, but has no effect; the broker logs one warning.
- refused: a value other than Kafka's default stops the start. Otherwise a protection would be missing without notice,
  or a required function would silently not work.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["KEY_SUPPORT", "SupportEntry", "KeySupport"]


class KeySupport(StrEnum):
    """The effect of a key that is set."""

    HONOURED = "honoured"
    ACCEPTED = "accepted"
    REFUSED = "refused"


class SupportEntry(NamedTuple):
    """The support for one key, and the reason to show for it; "" if there is nothing to add."""

    support: KeySupport
    reason: str


# The support, its reason, and the keys that share both.
_Block = tuple[KeySupport, str, str]

_QUORUM: Final = "klamm keeps metadata in its own store, and has no controller quorum."
_THREADS: Final = "One event loop serves all connections; there are no thread pools."
_REPLICATION: Final = "One fetcher copies from each leader, and connects as other requests between brokers do."
_TIERED: Final = "There is no tiered storage."
_QUOTAS: Final = "There are no quotas."
_SHARE: Final = "Share groups (KIP-932) are not served yet."
_STREAMS: Final = "Streams groups (KIP-1071) are not served."
_METRICS: Final = "klamm does not support JMX or metrics reporters."
_PURGATORY: Final = "Delayed operations are dropped when they complete; there is no purgatory to purge."
_SECURITY: Final = (
    "There is no TLS, SASL, ACL or delegation token yet; a setting that seems to protect must not be ignored."
)
_BETWEEN_BROKERS: Final = "Must be PLAINTEXT. Names the listener through which brokers talk, as in Kafka."
_TO_BROKERS: Final = "Applies to requests and connections to other brokers."
_UNUSED_SASL: Final = "No listener uses SASL. Without such a listener, the key has no effect in Kafka either."
_LZ4: Final = "The broker compresses lz4 with the fast compressor only, which has no levels."
_PREALLOCATE: Final = "Segments grow as they are written; klamm does not preallocate files."
_JAVA_CLASS: Final = "It names a Java class whose rules would not be applied."

_BROKER: Final[tuple[_Block, ...]] = (
    (
        KeySupport.HONOURED,
        "",
        """
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        auto.create.topics.enable broker.rack connections.max.idle.ms delete.topic.enable
        group.consumer.assignment.interval.ms group.consumer.heartbeat.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
        group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.regex.refresh.interval.ms
        group.consumer.session.timeout.ms group.initial.rebalance.delay.ms group.max.session.timeout.ms
        group.max.size group.min.session.timeout.ms
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.enable log.cleaner.io.buffer.load.factor
        log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads
        log.flush.offset.checkpoint.interval.ms log.initial.task.delay.ms log.retention.check.interval.ms
        max.connections max.connections.per.ip max.request.partition.size.limit num.partitions
        num.recovery.threads.per.data.dir offset.metadata.max.bytes offsets.commit.timeout.ms
        offsets.retention.check.interval.ms offsets.retention.minutes offsets.topic.compression.codec
        offsets.topic.num.partitions offsets.topic.segment.bytes producer.id.expiration.ms
        socket.listen.backlog.size socket.request.max.bytes
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
        transaction.state.log.num.partitions transaction.state.log.segment.bytes transactional.id.expiration.ms
        """,
    ),
    (
        KeySupport.HONOURED,
        "The default of a topic setting.",
        """
        compression.gzip.level compression.type compression.zstd.level log.cleanup.policy
        log.cleaner.delete.retention.ms log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio
        log.cleaner.min.compaction.lag.ms log.flush.interval.messages log.flush.interval.ms
        log.flush.scheduler.interval.ms log.index.interval.bytes log.index.size.max.bytes
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type
        log.retention.bytes log.retention.hours log.retention.minutes log.retention.ms log.roll.hours
        log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
        message.max.bytes min.insync.replicas
        """,
    ),
    (
        KeySupport.HONOURED,
        "134217728 (128 MiB) unless it is set; Kafka's default, -1, sets no limit. Only incomplete requests count. "
        "While the limit is reached, large requests are read one at a time, and a connection that does not send the "
        "rest of its request within 5 seconds is closed.",
        "queued.max.request.bytes",
    ),
    (
        KeySupport.HONOURED,
        "A slot is for up to 100 partitions; a session with more partitions takes several slots. Sessions of closed "
        "connections are evicted first, and end when they have not been used for two minutes.",
        "max.incremental.fetch.session.cache.slots",
    ),
    (KeySupport.HONOURED, "At most 8 MiB, or one batch if that is larger, whatever is set.", "fetch.max.bytes"),
    (KeySupport.HONOURED, "1 unless it is set; Kafka has no default.", "node.id"),
    (KeySupport.HONOURED, "Another name of node.id; both must agree.", "broker.id"),
    (
        KeySupport.HONOURED,
        "127.0.0.1:9092 unless it is set. Listeners must be PLAINTEXT; listeners of controllers are ignored.",
        "listeners",
    ),
    (
        KeySupport.HONOURED,
        "If it is set, it must contain every listener. Otherwise, a wildcard listener advertises the address to "
        "which the client connected.",
        "advertised.listeners",
    ),
    (KeySupport.HONOURED, "Must map the broker's listeners to PLAINTEXT.", "listener.security.protocol.map"),
    (
        KeySupport.HONOURED,
        "The listener through which brokers talk; only there a broker takes requests that are for brokers "
        "(WriteTxnMarkers, and AddPartitionsToTxn from version 4 on). A single listener has any name.",
        "inter.broker.listener.name",
    ),
    (KeySupport.HONOURED, _BETWEEN_BROKERS, "security.inter.broker.protocol"),
    (KeySupport.HONOURED, _TO_BROKERS, "request.timeout.ms socket.connection.setup.timeout.ms"),
    (
        KeySupport.HONOURED,
        "Listeners with these names are ignored, because there is no controller.",
        "controller.listener.names",
    ),
    (KeySupport.HONOURED, "Must contain broker: klamm has no processes that are only controllers.", "process.roles"),
    (
        KeySupport.HONOURED,
        "Set for a running broker only, not at its start. With `*` or its folder, a broker gets no new replicas.",
        "cordoned.log.dirs",
    ),
    (KeySupport.HONOURED, "./klamm-data unless it is set. Everything is stored in one folder.", "log.dirs log.dir"),
    (KeySupport.HONOURED, "Must be 1 for a single broker; workers can have more.", "default.replication.factor"),
    (
        KeySupport.HONOURED,
        "Without effect on a single broker, where an internal topic has one replica. Applies to workers.",
        "offsets.topic.replication.factor transaction.state.log.min.isr transaction.state.log.replication.factor",
    ),
    (
        KeySupport.HONOURED,
        "Applies to partitions with several replicas.",
        """
        auto.leader.rebalance.enable controlled.shutdown.enable follower.replication.throttled.rate
        leader.imbalance.check.interval.seconds leader.replication.throttled.rate
        replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
        replica.fetch.wait.max.ms replica.lag.time.max.ms replication.quota.window.num
        replication.quota.window.size.seconds unclean.leader.election.enable
        """,
    ),
    (
        KeySupport.HONOURED,
        "Takes org.apache.kafka.common.replica.RackAwareReplicaSelector: a consumer reads from an in-sync replica in "
        "its rack. Without the key it reads from the leader.",
        "replica.selector.class",
    ),
    (
        KeySupport.ACCEPTED,
        _QUORUM,
        """
        broker.heartbeat.interval.ms controller.performance.always.log.threshold.ms
        controller.performance.sample.period.ms controller.quorum.append.linger.ms
        controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.voters controller.socket.timeout.ms early.start.listeners
        initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
        internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes metadata.log.dir
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
        metadata.max.retention.ms sasl.mechanism.controller.protocol server.max.startup.time.ms
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _THREADS,
        """
        background.threads group.coordinator.background.threads group.coordinator.threads num.io.threads
        num.network.threads num.replica.alter.log.dirs.threads queued.max.requests
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _REPLICATION,
        """
        num.replica.fetchers replica.high.watermark.checkpoint.interval.ms
        replica.socket.receive.buffer.bytes replica.socket.timeout.ms socket.connection.setup.timeout.max.ms
        unclean.leader.election.interval.ms
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _TIERED,
        """
        follower.fetch.last.tiered.offset.enable log.local.retention.bytes log.local.retention.ms
        remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.index.file.cache.ttl.ms
        remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
        remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
        remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
        remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
        remote.log.manager.follower.thread.pool.size remote.log.manager.task.interval.ms
        remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
        remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix
        """,
    ),
    (
        KeySupport.REFUSED,
        "There is no tiered storage; records that should move to it would fill the disk.",
        "remote.log.storage.system.enable",
    ),
    (
        KeySupport.ACCEPTED,
        _QUOTAS,
        """
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        controller.quota.window.num controller.quota.window.size.seconds max.connection.creation.rate
        max.connections.per.ip.overrides quota.window.num quota.window.size.seconds
        replica.alter.log.dirs.io.max.bytes.per.second
        """,
    ),
    (
        KeySupport.HONOURED,
        "uniform,range,load unless it is set. Takes these names, and Kafka's classes for uniform and range.",
        "group.consumer.assignors",
    ),
    (
        KeySupport.HONOURED,
        "Decides whether groups of the consumer protocol are served. Share and streams groups are never served.",
        "group.coordinator.rebalance.protocols",
    ),
    (
        KeySupport.ACCEPTED,
        "The group coordinator keeps no buffer for reuse.",
        "group.coordinator.cached.buffer.max.bytes",
    ),
    (
        KeySupport.ACCEPTED,
        _SHARE,
        """
        group.share.assignment.interval.ms group.share.assignors group.share.delivery.count.limit
        group.share.heartbeat.interval.ms group.share.initialize.retry.interval.ms
        group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
        group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
        group.share.max.size group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.persister.class.name group.share.record.lock.duration.ms
        group.share.session.timeout.ms share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
        share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
        share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
        share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.replication.factor
        share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
        share.fetch.purgatory.purge.interval.requests
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _STREAMS,
        """
        group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
        """,
    ),
    (
        KeySupport.ACCEPTED,
        "Transactions are loaded in steps of a fixed size.",
        "transaction.state.log.load.buffer.size",
    ),
    (
        KeySupport.ACCEPTED,
        "No stable version of a request can ask for two-phase commit (KIP-939).",
        "transaction.two.phase.commit.enable",
    ),
    (
        KeySupport.ACCEPTED,
        _METRICS,
        """
        kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
        metrics.recording.level metrics.sample.window.ms telemetry.max.bytes
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _PURGATORY,
        """
        delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        producer.purgatory.purge.interval.requests
        """,
    ),
    (
        KeySupport.ACCEPTED,
        "The checkpoint of log start offsets is written together with the checkpoint of recovery points.",
        "log.flush.start.offset.checkpoint.interval.ms",
    ),
    (
        KeySupport.ACCEPTED,
        "The operating system adapts the size of socket buffers to the traffic.",
        "socket.receive.buffer.bytes socket.send.buffer.bytes",
    ),
    (KeySupport.ACCEPTED, "Offsets are loaded in steps of a fixed size.", "offsets.load.buffer.size"),
    (
        KeySupport.ACCEPTED,
        "Producer ids expire together with the check of retention (log.retention.check.interval.ms).",
        "producer.id.expiration.check.interval.ms",
    ),
    (KeySupport.ACCEPTED, _LZ4, "compression.lz4.level"),
    (KeySupport.ACCEPTED, _PREALLOCATE, "log.preallocate"),
    (KeySupport.ACCEPTED, "A folder that fails takes its partitions offline at once.", "log.dir.failure.timeout.ms"),
    (
        KeySupport.ACCEPTED,
        "Only stable versions of APIs and features are served.",
        "unstable.api.versions.enable unstable.feature.versions.enable",
    ),
    (KeySupport.REFUSED, "Values are not looked up elsewhere: ${...} would be taken as it stands.", "config.providers"),
    (
        KeySupport.REFUSED,
        _JAVA_CLASS,
        "alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name",
    ),
    (
        KeySupport.ACCEPTED,
        _UNUSED_SASL,
        """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
        sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        """,
    ),
    (
        KeySupport.REFUSED,
        _SECURITY,
        """
        authorizer.class.name connection.failed.authentication.delay.ms connections.max.reauth.ms
        delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
        delegation.token.secret.key principal.builder.class sasl.client.callback.handler.class sasl.enabled.mechanisms
        sasl.jaas.config sasl.login.callback.handler.class sasl.login.class sasl.mechanism.inter.broker.protocol
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
        sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
        sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
        sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size
        security.providers ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites
        ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
        ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
        ssl.keystore.password ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
        ssl.truststore.password ssl.truststore.type
        """,
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the cluster id of a new data folder; without it, the first start creates a random id.",
        "klamm.cluster.id",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: groups with matching ids are deleted after klamm.group.ephemeral.retention.ms.",
        "klamm.group.ephemeral.patterns",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: replaces offsets.retention.minutes for groups that match klamm.group.ephemeral.patterns.",
        "klamm.group.ephemeral.retention.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: when records are synced to the disk, and whether an acknowledgement waits for the sync.",
        "klamm.fsync",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the interval of klamm.fsync=interval.",
        "klamm.fsync.interval.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: whether groups have a history in the topic __group_history.",
        "klamm.group.history.enable",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the retention of the topic __group_history; used when the topic is created.",
        "klamm.group.history.retention.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: joins and leaves within this time cause only one rebalance of a classic group.",
        "klamm.group.rebalance.batch.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the interval at which rates and lags are measured.",
        "klamm.group.traffic.interval.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the URL of the metadata store in etcd that the brokers of a cluster share.",
        "klamm.metadata",
    ),
    (
        KeySupport.HONOURED,
        "With klamm.metadata: how long etcd waits for a broker before the others see that it is gone.",
        "broker.session.timeout.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: the address at which autoscalers and monitoring read klamm's metrics.",
        "klamm.metrics.listener",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: how long an offset commit waits for others; by default group.coordinator.append.linger.ms.",
        "klamm.offsets.commit.linger.ms",
    ),
    (
        KeySupport.HONOURED,
        "Only offset commits wait for other commits; all other records are written at once.",
        "group.coordinator.append.linger.ms",
    ),
)

_TOPIC: Final[tuple[_Block, ...]] = (
    (
        KeySupport.HONOURED,
        "",
        """
        cleanup.policy compression.gzip.level compression.type compression.zstd.level delete.retention.ms
        file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes
        internal.segment.bytes leader.replication.throttled.replicas
        max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
        message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas retention.bytes
        retention.ms segment.bytes
        segment.index.bytes segment.jitter.ms segment.ms
        """,
    ),
    (KeySupport.ACCEPTED, _LZ4, "compression.lz4.level"),
    (KeySupport.ACCEPTED, _PREALLOCATE, "preallocate"),
    (KeySupport.HONOURED, "Applies to partitions with several replicas.", "unclean.leader.election.enable"),
    (
        KeySupport.ACCEPTED,
        _TIERED,
        "local.retention.bytes local.retention.ms remote.log.copy.disable remote.log.delete.on.disable",
    ),
    (
        KeySupport.REFUSED,
        "There is no tiered storage; it is refused as by a Kafka broker without it.",
        "remote.storage.enable",
    ),
)

_GROUP: Final[tuple[_Block, ...]] = (
    (
        KeySupport.HONOURED,
        "",
        "consumer.assignment.interval.ms consumer.heartbeat.interval.ms consumer.session.timeout.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: for this time after a member of the consumer protocol has lost a partition, the assignors prefer "
        "this member for the partition.",
        "klamm.consumer.assignor.previous.owner.ms",
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: for the assignor load, and for the number of members needed.",
        """
        klamm.consumer.assignor.load.hysteresis.ratio klamm.consumer.assignor.load.lag.drain.ms
        klamm.consumer.assignor.load.min.dwell.ms klamm.consumer.assignor.load.partition.cost
        klamm.consumer.assignor.load.target.lag
        """,
    ),
    (
        KeySupport.HONOURED,
        "klamm's own: for the assignor load; there is a key for each topic, which ends with the topic's name.",
        "klamm.consumer.assignor.load.topic.weight.",
    ),
    (
        KeySupport.ACCEPTED,
        _SHARE,
        """
        share.assignment.interval.ms share.auto.offset.reset share.delivery.count.limit share.heartbeat.interval.ms
        share.isolation.level share.partition.max.record.locks share.record.lock.duration.ms
        share.renew.acknowledge.enable share.session.timeout.ms
        """,
    ),
    (
        KeySupport.ACCEPTED,
        _STREAMS,
        """
        streams.assignment.interval.ms streams.heartbeat.interval.ms streams.initial.rebalance.delay.ms
        streams.num.standby.replicas streams.session.timeout.ms
        """,
    ),
)

_CLIENT_METRICS: Final[tuple[_Block, ...]] = (
    (KeySupport.ACCEPTED, "klamm does not request metrics from clients (KIP-714).", "interval.ms match metrics"),
)


def _by_key(blocks: tuple[_Block, ...]) -> dict[str, SupportEntry]:
    return {key: SupportEntry(support, reason) for support, reason, keys in blocks for key in keys.split()}


KEY_SUPPORT: Final[Mapping[str, Mapping[str, SupportEntry]]] = {
    "broker": _by_key(_BROKER),
    "topic": _by_key(_TOPIC),
    "group": _by_key(_GROUP),
    "client_metrics": _by_key(_CLIENT_METRICS),
}
"""The support by scope and key."""
