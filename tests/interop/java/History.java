import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Appends events to a history of the checker, as tests/checker/history.py does.
 *
 * <p>System.nanoTime() is the monotonic clock of Linux, which Python's time.monotonic_ns() reads, too.
 */
public class History {
    static final ObjectMapper JSON = new ObjectMapper();
    private final FileChannel file;

    History(String path) throws Exception {
        file = FileChannel.open(Path.of(path), StandardOpenOption.WRITE, StandardOpenOption.APPEND);
    }

    /** Appends an event with the current time. The fields are those of the class of this name in history.py. */
    synchronized void record(String event, String process, Map<String, ?> fields) {
        try {
            ObjectNode line = JSON.createObjectNode();
            line.put("time_ns", System.nanoTime()).put("event", event).put("process", process);
            line.setAll((ObjectNode) JSON.valueToTree(fields));
            ByteBuffer bytes = ByteBuffer.wrap(("\n" + JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) file.write(bytes);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    void problem(String process, Throwable error) {
        record("Problem", process, Map.of("error", String.valueOf(error)));
    }

    static List<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).toList();
    }
}
