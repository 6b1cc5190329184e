import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** An idempotent producer, or with a transactional id one of transactions, of which it aborts a third. */
final class CheckedProducer extends CheckedClients.CheckedClient {
    private static final int RECORDS = 20;
    private static final int PENDING = 6;
    private static final long VALUES_OF_A_PROCESS = 100_000_000L;
    private static final long VALUES_OF_A_CLIENT = 50_000_000L;
    private static final long PATIENCE_NANOS = 60_000_000_000L;
    private static final String PADDING = " " + "x".repeat(500);
    private final String transactionalId;
    private final Semaphore slots = new Semaphore(PENDING);
    private long value;
    private int transaction;
    private KafkaProducer<String, String> producer;

    CheckedProducer(CheckedClients clients, String role, String transactionalId) {
        super(clients, role);
        this.transactionalId = transactionalId;
        value = clients.number * VALUES_OF_A_PROCESS + (transactionalId == null ? 0 : VALUES_OF_A_CLIENT);
    }

    @Override
    void renew() {
        if (producer != null) producer.close(java.time.Duration.ZERO);
        beginLife();
        Map<String, Object> config = config();
        config.put("linger.ms", random.nextInt(3));
        if (transactionalId != null) {
            config.put("transactional.id", transactionalId);
            config.put("transaction.timeout.ms", 20_000);
        }
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        transaction = 0;
        if (transactionalId != null) producer.initTransactions();
    }

    @Override
    void step() {
        if (transactionalId == null) {
            slots.acquireUninterruptibly();
            send(null, slots::release);
            pause(100);
        } else {
            runTransaction();
        }
    }

    @Override
    void end() {
        if (transactionalId != null) renew(); // ends an open transaction
        producer.close();
    }

    private void runTransaction() {
        transaction++;
        producer.beginTransaction();
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
            send(transaction, () -> {});
            pause(100);
        }
        boolean commits = random.nextInt(3) > 0;
        history.record("End", process, Map.of("transaction", transaction, "commits", commits));
        String outcome = "unknown";
        try {
            end(commits);
            outcome = "ok";
        } finally {
            history.record("Ended", process, Map.of("transaction", transaction, "outcome", outcome));
        }
    }

    private void end(boolean commits) {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (true) {
            try {
                if (commits) producer.commitTransaction();
                else producer.abortTransaction();
                return;
            } catch (TimeoutException error) { // the same call again continues
                if (System.nanoTime() > deadline) throw error;
            }
        }
    }

    /** Sends records to random partitions. The event Sent follows the last answer. */
    private void send(Integer inTransaction, Runnable whenDone) {
        List<List<Object>> records = new ArrayList<>();
        int count = 1 + random.nextInt(RECORDS);
        for (int place = 0; place < count; place++)
            records.add(List.of(CheckedClients.TOPIC + "-" + random.nextInt(clients.partitions), value++));
        int operation = nextOperation();
        java.util.Map<String, Object> sent = new java.util.HashMap<>();
        sent.put("operation", operation);
        sent.put("records", records);
        sent.put("transaction", inTransaction);
        history.record("Send", process, sent);
        Answers answers = new Answers(process, operation, count, whenDone);
        int place = 0;
        try {
            for (; place < count; place++) {
                String partition = (String) records.get(place).get(0);
                int index = Integer.parseInt(partition.substring(partition.lastIndexOf('-') + 1));
                int at = place;
                producer.send(
                    new ProducerRecord<>(CheckedClients.TOPIC, index, null, records.get(place).get(1) + PADDING),
                    (metadata, error) -> answers.answered(at, error == null ? metadata.offset() : null, error));
            }
        } catch (KafkaException error) { // the rest was not sent, and stays unknown
            for (; place < count; place++) answers.answered(place, null, error);
            throw error;
        }
    }

    /** The answers to the records of one operation. */
    private final class Answers {
        private final String process;
        private final int operation;
        private final Runnable whenDone;
        private final String[] outcomes;
        private final Long[] offsets;
        private final Set<String> errors = new TreeSet<>();
        private final AtomicInteger left;

        private Answers(String process, int operation, int count, Runnable whenDone) {
            this.process = process;
            this.operation = operation;
            this.whenDone = whenDone;
            outcomes = new String[count];
            offsets = new Long[count];
            left = new AtomicInteger(count);
        }

        private void answered(int place, Long offset, Exception error) {
            synchronized (this) {
                outcomes[place] = error == null ? "ok" : "unknown";
                // The broker does not know the offset of a retry that it recognizes only as an old duplicate.
                offsets[place] = offset != null && offset >= 0 ? offset : null;
                // The checker knows librdkafka's name for a record on which the client gave up.
                if (error != null)
                    errors.add(error instanceof TimeoutException ? "_MSG_TIMED_OUT" : error.getClass().getSimpleName());
            }
            if (left.decrementAndGet() > 0) return;
            history.record("Sent", process, Map.of("operation", operation, "outcomes", Arrays.asList(outcomes),
                "offsets", Arrays.asList(offsets), "errors", errors));
            whenDone.run();
        }
    }
}
