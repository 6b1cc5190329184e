import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Handles records with Confluent's Parallel Consumer, in the order of each key: what bench/record_client.py does. */
public final class RecordClient {
    private static final int CONCURRENCY = 128;

    /** Arguments: bootstrap servers, topic, group, count, milliseconds of the handler, whether to measure latency. */
    public static void main(String[] words) throws Exception {
        int count = Integer.parseInt(words[3]);
        long handlerMs = Long.parseLong(words[4]);
        boolean hasLatency = Boolean.parseBoolean(words[5]);
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[0],
            "group.id", words[2],
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        var options = ParallelConsumerOptions.<byte[], byte[]>builder()
            .ordering(ParallelConsumerOptions.ProcessingOrder.KEY)
            .maxConcurrency(CONCURRENCY)
            .consumer(new KafkaConsumer<byte[], byte[]>(settings))
            .build();
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long[] began = new long[2];
        long[] latencies = new long[hasLatency ? count : 0];
        AtomicInteger begun = new AtomicInteger();
        AtomicInteger ended = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
        processor.subscribe(List.of(words[1]));
        processor.poll(context -> {
            if (begun.getAndIncrement() == 0) {
                began[0] = System.nanoTime();
                began[1] = system.getProcessCpuTime();
            }
            if (handlerMs > 0) {
                try {
                    Thread.sleep(handlerMs);
                } catch (InterruptedException interruption) {
                    return;
                }
            }
            int number = ended.getAndIncrement();
            if (hasLatency && number < count) {
                latencies[number] = System.currentTimeMillis() - context.getSingleConsumerRecord().timestamp();
            }
            if (number == count - 1) {
                done.countDown();
            }
        });
        done.await();
        double seconds = (System.nanoTime() - began[0]) / 1e9;
        double cpu = (system.getProcessCpuTime() - began[1]) / 1e3 / count;
        String figures = String.format("\"records_per_second\": %f, \"cpu_microseconds\": %f", count / seconds, cpu);
        if (hasLatency) {
            long[] sorted = Arrays.copyOfRange(latencies, count / 3, count);
            Arrays.sort(sorted);
            figures += String.format(
                ", \"p50_ms\": %d, \"p99_ms\": %d", sorted[sorted.length / 2], sorted[sorted.length * 99 / 100]);
        }
        System.out.println("{" + figures + "}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
