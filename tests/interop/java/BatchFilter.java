import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Utils;

/**
 * Apache Kafka's record batches, driven over standard input and output: segment files as its log writes them, and batches
 * of which a cleaner keeps some records; what Kafka's reader finds in a batch. Operations as those of GroupAssignments.
 */
public class BatchFilter {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("answer", perform(Client.JSON.readTree(line)));
            } catch (Throwable error) {
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", String.valueOf(error.getMessage()));
            }
            System.out.println(Client.JSON.writeValueAsString(answer));
        }
    }

    private static Object perform(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "write":
                return write(new File(command.get("file").asText()), command.get("seed").asLong());
            case "filter":
                return filter(command);
            case "read":
                return read(command);
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    /** A segment of fifty batches by chance, with every codec and both kinds of timestamps; how many records it has. */
    private static int write(File file, long seed) throws Exception {
        Random random = new Random(seed);
        int count = 0;
        try (FileRecords segment = FileRecords.open(file)) {
            for (int number = 0; number < 50; number++) {
                MemoryRecordsBuilder builder = MemoryRecords.builder(
                    ByteBuffer.allocate(1024),
                    RecordBatch.CURRENT_MAGIC_VALUE,
                    Compression.of(CompressionType.forId(number % 5)).build(),
                    number % 3 == 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
                    count,
                    1_700_000_000_000L + number,
                    number % 4 == 0 ? 7 : RecordBatch.NO_PRODUCER_ID,
                    number % 4 == 0 ? (short) 1 : RecordBatch.NO_PRODUCER_EPOCH,
                    number % 4 == 0 ? count : RecordBatch.NO_SEQUENCE,
                    false,
                    number);
                for (int left = 1 + random.nextInt(number % 10 == 0 ? 2000 : 20); left > 0; left--, count++) {
                    Header[] headers = new Header[random.nextInt(4) == 0 ? random.nextInt(4) : 0];
                    for (int place = 0; place < headers.length; place++) {
                        headers[place] = new RecordHeader("h\u00fc" + place, bytes(random, 20));
                    }
                    long timestamp = 1_700_000_000_000L + random.nextInt(1_000_000) - 500_000;
                    builder.append(timestamp, bytes(random, 20), bytes(random, 200), headers);
                }
                segment.append(builder.build());
            }
            segment.flush();
        }
        return count;
    }

    private static byte[] bytes(Random random, int limit) {
        if (random.nextInt(5) == 0) {
            return null;
        }
        byte[] made = new byte[random.nextInt(limit)];
        random.nextBytes(made);
        return made;
    }

    /** Offset, timestamp, key, value and headers of each record of a batch whose checksum is valid. */
    private static List<Object> read(JsonNode command) throws Exception {
        byte[] bytes = Base64.getDecoder().decode(command.get("batch").asText());
        List<Object> found = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            if (batch.sizeInBytes() != bytes.length) {
                throw new IllegalArgumentException(batch.sizeInBytes() + " bytes of " + bytes.length);
            }
            for (Record record : batch) {
                record.ensureValid();
                List<Object> headers = new ArrayList<>();
                for (Header header : record.headers()) {
                    headers.add(Arrays.asList(header.key(), encoded(header.value())));
                }
                found.add(Arrays.asList(
                    record.offset(),
                    record.timestamp(),
                    encoded(record.hasKey() ? Utils.toArray(record.key()) : null),
                    encoded(record.hasValue() ? Utils.toArray(record.value()) : null),
                    headers));
            }
        }
        return found;
    }

    private static String encoded(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    /** What MemoryRecords.filterTo makes of a batch when a cleaner keeps these records. */
    private static String filter(JsonNode command) throws Exception {
        byte[] batch = Base64.getDecoder().decode(command.get("batch").asText());
        String keep = command.get("keep").asText();
        boolean isEmptyMarker = command.get("marks_empty_transaction").asBoolean();
        boolean retainsEmpty = command.get("retain_empty").asBoolean();
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(command.get("horizon").asLong(), 0) {
            private int index;

            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch ignored) {
                return new BatchRetentionResult(
                    retainsEmpty ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY, isEmptyMarker);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch ignored, Record record) {
                return keep.charAt(index++) == '1';
            }
        };
        MemoryRecords.FilterResult result = MemoryRecords.readableRecords(ByteBuffer.wrap(batch))
            .filterTo(filter, ByteBuffer.allocate(batch.length + 1024), BufferSupplier.create());
        ByteBuffer output = result.outputBuffer();
        output.flip();
        byte[] made = new byte[output.remaining()];
        output.get(made);
        return Base64.getEncoder().encodeToString(made);
    }
}
