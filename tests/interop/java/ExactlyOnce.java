import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce, exactly once; every third transaction is aborted.
 *
 * <p>java ExactlyOnce BOOTSTRAP SOURCE TARGET NAME, where NAME is the group and the transactional id. Says "committed N"
 * or "aborted N" after each transaction of N records, "idle" when none came for a second, and runs until it is killed.
 */
public class ExactlyOnce {
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final String target;

    ExactlyOnce(String bootstrap, String source, String target, String name) {
        this.target = target;
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", name);
        // So that the one that comes after a kill takes its place at once.
        config.put("group.instance.id", name);
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("max.poll.records", "2");
        // After an abort it seeks, and then has to wait for the fetch that is under way.
        config.put("fetch.max.wait.ms", "10");
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        Map<String, Object> outgoing = new HashMap<>();
        outgoing.put("bootstrap.servers", bootstrap);
        outgoing.put("transactional.id", name);
        producer = new KafkaProducer<>(outgoing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(source));
    }

    public static void main(String[] arguments) {
        new ExactlyOnce(arguments[0], arguments[1], arguments[2], arguments[3]).run();
    }

    private void run() {
        int transactions = 0;
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
            if (records.isEmpty()) {
                System.out.println("idle");
                continue;
            }
            transactions++;
            boolean aborts = transactions % 3 == 0;
            try {
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records)
                    producer.send(new ProducerRecord<>(target, record.partition(), null, record.value().toUpperCase()));
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (TopicPartition partition : consumer.assignment())
                    offsets.put(partition, new OffsetAndMetadata(consumer.position(partition)));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (aborts) {
                    producer.abortTransaction();
                    rewind();
                } else {
                    producer.commitTransaction();
                }
                System.out.println((aborts ? "aborted " : "committed ") + records.count());
            } catch (TransactionAbortableException | RetriableException error) {
                producer.abortTransaction();
                rewind();
            }
        }
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            if (offset == null)
                consumer.seekToBeginning(List.of(partition));
            else
                consumer.seek(partition, offset.offset());
        }
    }
}
