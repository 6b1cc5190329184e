import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's Java clients, driven over standard input and output by the tests.
 *
 * <p>java Client BOOTSTRAP. Each line in is a JSON object whose "do" names an operation; each gets one line out,
 * {"answer": ...} or {"error": "ExceptionClass", "message": ...}. Group members run in threads of their own, and what
 * happens to them comes in between as {"member": name, "event": ..., ...}.
 */
public class Client {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;
    private final String bootstrap;
    private final Map<String, Member> members = new ConcurrentHashMap<>();
    private final AdminOperations admin;

    Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = new AdminOperations(bootstrap);
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("answer", client.perform(JSON.readTree(line)));
            } catch (Throwable error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer.put("error", cause.getClass().getSimpleName());
                answer.put("message", String.valueOf(cause.getMessage()));
            }
            say(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    static synchronized void say(Map<String, Object> line) throws Exception {
        OUT.println(JSON.writeValueAsString(line));
        OUT.flush();
    }

    private Object perform(JsonNode command) throws Exception {
        return switch (command.get("do").asText()) {
            case "produce" -> produce(command);
            case "transact" -> transact(command);
            case "read" -> read(command);
            case "join" -> join(command);
            case "leave" -> leave(command);
            case "rewind" -> rewind(command);
            case "commit" -> commit(command);
            default -> admin.perform(command);
        };
    }

    private Map<String, Object> config(JsonNode command) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        if (command.has("config"))
            command.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    private static String textOrNull(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    /** Sends "records" to "topic" and answers [partition, offset, timestamp] of each, in order. */
    private Object produce(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config(command))) {
            for (JsonNode record : command.get("records")) {
                Integer partition = record.has("partition") ? record.get("partition").asInt() : null;
                Long timestamp = record.has("timestamp") ? record.get("timestamp").asLong() : null;
                ProducerRecord<String, String> outgoing = new ProducerRecord<>(
                    topic, partition, timestamp, textOrNull(record.get("key")), textOrNull(record.get("value")));
                if (record.has("headers"))
                    for (JsonNode header : record.get("headers")) {
                        String value = textOrNull(header.get(1));
                        outgoing.headers().add(
                            header.get(0).asText(), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
                    }
                sent.add(producer.send(outgoing));
            }
            producer.flush();
        }
        List<Object> answer = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata metadata = future.get();
            answer.add(List.of(metadata.partition(), metadata.offset(), metadata.timestamp()));
        }
        return answer;
    }

    /** Writes each list of "transactions" in a transaction; every second one is aborted. */
    private Object transact(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        Map<String, Object> config = config(command);
        config.put("transactional.id", command.get("transactional.id").asText());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            boolean commits = true;
            for (JsonNode records : command.get("transactions")) {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (JsonNode record : records)
                    sent.add(producer.send(new ProducerRecord<>(
                        topic, record.get("partition").asInt(), null, record.get("value").asText())));
                producer.flush();
                for (Future<RecordMetadata> future : sent) future.get();
                if (commits) producer.commitTransaction();
                else producer.abortTransaction();
                commits = !commits;
            }
        }
        return null;
    }

    static Map<String, Object> asMap(ConsumerRecord<String, String> record) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("partition", record.partition());
        map.put("offset", record.offset());
        map.put("timestamp", record.timestamp());
        map.put("key", record.key());
        map.put("value", record.value());
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8));
            headers.add(pair);
        }
        map.put("headers", headers);
        return map;
    }

    /** Reads all partitions of "topic" without a group, from "earliest", "latest", "offset" or "timestamp" on, to the end. */
    private Object read(JsonNode command) {
        List<Object> answer = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config(command))) {
            List<TopicPartition> partitions = consumer.partitionsFor(command.get("topic").asText()).stream()
                .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
            consumer.assign(partitions);
            if (command.has("offset")) {
                partitions.forEach(partition -> consumer.seek(partition, command.get("offset").asLong()));
            } else if (command.has("timestamp")) {
                Map<TopicPartition, Long> wanted = new HashMap<>();
                partitions.forEach(partition -> wanted.put(partition, command.get("timestamp").asLong()));
                Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(wanted);
                consumer.seekToEnd(partitions);
                found.forEach((partition, offset) -> {
                    if (offset != null) consumer.seek(partition, offset.offset());
                });
            } else if (command.get("from").asText().equals("latest")) {
                consumer.seekToEnd(partitions);
            } else {
                consumer.seekToBeginning(partitions);
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition)))
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) answer.add(asMap(record));
        }
        return answer;
    }

    /** Starts member "name", which subscribes to "topic" and tells every record and every change of its assignment. */
    private Object join(JsonNode command) {
        Member member = new Member(command.get("name").asText(), command.get("topic").asText(), config(command));
        members.put(member.name, member);
        member.start();
        return null;
    }

    private Object leave(JsonNode command) throws Exception {
        Member member = members.remove(command.get("name").asText());
        member.requests.put(consumer -> member.leaving = true);
        member.join();
        return null;
    }

    private Object rewind(JsonNode command) throws Exception {
        members.get(command.get("name").asText()).requests.put(
            consumer -> consumer.seekToBeginning(consumer.assignment()));
        return null;
    }

    /** Commits the position of member "name"; the result comes as its event "committed". */
    private Object commit(JsonNode command) throws Exception {
        Member member = members.get(command.get("name").asText());
        member.requests.put(consumer -> {
            consumer.commitSync();
            member.tell("committed", Map.of());
        });
        return null;
    }

    /** One member of a group in a thread of its own. It ends, with the event "failed", on the first exception. */
    private static final class Member extends Thread {
        private interface Request {
            void apply(KafkaConsumer<String, String> consumer);
        }

        private final String name;
        private final String topic;
        private final Map<String, Object> config;
        private final BlockingQueue<Request> requests = new LinkedBlockingQueue<>();
        private volatile boolean leaving;

        private Member(String name, String topic, Map<String, Object> config) {
            this.name = name;
            this.topic = topic;
            this.config = config;
        }

        private void tell(String event, Map<String, Object> more) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("member", name);
            line.put("event", event);
            line.putAll(more);
            try {
                say(line);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private void tellPartitions(String event, Collection<TopicPartition> partitions) {
            tell(event, Map.of("partitions", partitions.stream().map(TopicPartition::partition).sorted().toList()));
        }

        /** To the topic, or, if that begins with ^, to all that the broker finds to match. */
        private void subscribe(KafkaConsumer<String, String> consumer, ConsumerRebalanceListener listener) {
            if (topic.startsWith("^")) consumer.subscribe(new SubscriptionPattern(topic.substring(1)), listener);
            else consumer.subscribe(List.of(topic), listener);
        }

        @Override
        public void run() {
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
                subscribe(consumer, new ConsumerRebalanceListener() {
                    @Override
                    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                        tellPartitions("revoked", partitions);
                    }

                    @Override
                    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                        tellPartitions("assigned", consumer.assignment());
                    }

                    @Override
                    public void onPartitionsLost(Collection<TopicPartition> partitions) {
                        tellPartitions("lost", partitions);
                    }
                });
                while (!leaving) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                        tell("record", asMap(record));
                    for (Request request = requests.poll(); request != null; request = requests.poll()) {
                        try {
                            request.apply(consumer);
                        } catch (RuntimeException error) {
                            tell("refused", Map.of("error", error.getClass().getSimpleName()));
                        }
                    }
                }
            } catch (RuntimeException error) {
                tell("failed", Map.of("error", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage())));
                return;
            }
            tell("left", Map.of());
        }
    }
}
