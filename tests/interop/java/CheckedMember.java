import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group that commits after about every second poll, and sometimes leaves and joins again. */
final class CheckedMember extends CheckedClients.CheckedClient {
    private static final int ONE_IN_LEAVES = 250;
    private final String group;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
    private KafkaConsumer<String, String> consumer;

    CheckedMember(CheckedClients clients, String role, String group) {
        super(clients, role);
        this.group = group;
    }

    @Override
    void renew() {
        if (consumer != null) consumer.close();
        beginLife();
        positions.clear();
        Map<String, Object> config = config();
        config.put("group.id", group);
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("fetch.max.wait.ms", "50");
        config.put("default.api.timeout.ms", "30000");
        if (group.equals("java-consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("session.timeout.ms", "4000");
            config.put("heartbeat.interval.ms", "500");
        }
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(CheckedClients.TOPIC), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                positions.keySet().removeAll(partitions);
                List<List<Object>> assigned = new ArrayList<>();
                for (String name : History.names(partitions)) assigned.add(java.util.Arrays.asList(name, null));
                history.record("Assign", process, Map.of("positions", assigned, "group", group));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                positions.keySet().removeAll(partitions);
                history.record("Revoke", process, Map.of("partitions", History.names(partitions)));
            }
        });
    }

    @Override
    void step() {
        ConsumerRecords<String, String> polled = consumer.poll(Duration.ofMillis(50));
        List<List<Object>> batches = new ArrayList<>();
        for (TopicPartition partition : polled.partitions()) {
            List<Long> offsets = new ArrayList<>();
            List<Long> values = new ArrayList<>();
            for (ConsumerRecord<String, String> record : polled.records(partition)) {
                offsets.add(record.offset());
                values.add(Long.parseLong(record.value().split(" ", 2)[0]));
            }
            batches.add(List.of(partition.toString(), offsets, values));
            positions.put(partition, new OffsetAndMetadata(offsets.get(offsets.size() - 1) + 1));
        }
        if (!batches.isEmpty())
            history.record("Poll", process, Map.of("isolation", "read_committed", "batches", batches, "group", group));
        // Commits even without new records, so that a commit that failed before is tried again.
        if (!positions.isEmpty() && random.nextBoolean()) commit();
        if (random.nextInt(ONE_IN_LEAVES) == 0) renew();
    }

    @Override
    void end() {
        consumer.close();
    }

    private void commit() {
        int operation = nextOperation();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(positions);
        List<List<Object>> shown = new ArrayList<>();
        offsets.forEach((partition, offset) -> shown.add(List.of(partition.toString(), offset.offset())));
        history.record("Commit", process, Map.of("operation", operation, "group", group, "offsets", shown));
        String outcome = "unknown";
        String reason = "";
        try {
            consumer.commitSync(offsets);
            outcome = "ok";
        } catch (KafkaException error) { // for example while the group rebalances; the next poll joins again
            reason = String.valueOf(error);
        }
        history.record("Committed", process, Map.of("operation", operation, "outcome", outcome, "error", reason));
    }
}
