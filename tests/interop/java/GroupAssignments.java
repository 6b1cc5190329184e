import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.ModernGroup;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Consumer groups as Apache Kafka's coordinator keeps them, with its assignors, driven over standard input and output.
 *
 * <p>Each line in is a JSON object whose "do" names what happens to the one group that there is, each gets one line out:
 * {"answer": ...} or {"error": "ExceptionClass", "message": ...}. A target assignment is computed and replayed as the
 * coordinator does it in a member's heartbeat; the answer has the records of the target, in their order.
 */
public class GroupAssignments {
    private static final Map<String, ConsumerGroupPartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor());
    private ConsumerGroup group;
    private int epoch;

    public static void main(String[] arguments) throws Exception {
        GroupAssignments assignments = new GroupAssignments();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("answer", assignments.perform(Client.JSON.readTree(line)));
            } catch (Throwable error) {
                answer.put("error", error.getClass().getSimpleName());
                answer.put("message", String.valueOf(error.getMessage()));
            }
            System.out.println(Client.JSON.writeValueAsString(answer));
        }
    }

    private Object perform(JsonNode command) {
        switch (command.get("do").asText()) {
            case "start":
                group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "group");
                epoch = 0;
                return null;
            case "leave":
                remove(command.get("id").asText());
                return null;
            case "heartbeat":
                return heartbeat(command);
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }

    private void remove(String memberId) {
        group.removeTargetAssignment(memberId);
        group.removeMember(memberId);
    }

    /** A member joins or changes, perhaps in the place of a static member, and a target is computed. */
    private Object heartbeat(JsonNode command) {
        List<String> names = new ArrayList<>();
        command.get("subscription").forEach(name -> names.add(name.asText()));
        String memberId = command.get("id").asText();
        ConsumerGroupMember updated = new ConsumerGroupMember.Builder(memberId)
            .setInstanceId(command.path("instance").asText(null))
            .setSubscribedTopicNames(names)
            .build();
        String replacedId = group.staticMemberId(updated.instanceId());
        if (memberId.equals(replacedId)) replacedId = null;
        ConsumerGroupMember before = group.hasMember(memberId)
            ? group.getOrMaybeCreateMember(memberId, false)
            : replacedId == null ? null : group.getOrMaybeCreateMember(replacedId, false);
        SubscriptionType subscriptionType = ModernGroup.subscriptionType(
            group.computeSubscribedTopicNames(before, updated), group.numMembers() + (before == null ? 1 : 0));
        ConsumerTargetAssignmentBuilder builder =
            new ConsumerTargetAssignmentBuilder("group", ++epoch, ASSIGNORS.get(command.get("assignor").asText()))
                .withTime(Time.SYSTEM)
                .withMembers(group.members())
                .withStaticMembers(group.staticMembers())
                .withSubscriptionType(subscriptionType)
                .withTargetAssignment(group.targetAssignment())
                .withInvertedTargetAssignment(group.invertedTargetAssignment())
                .withMetadataImage(new Topics(command.get("topics")))
                .addOrUpdateMember(memberId, updated);
        if (replacedId != null) builder.removeMember(replacedId);
        List<CoordinatorRecord> records = builder.build().records();
        if (replacedId != null) remove(replacedId);
        // Two records of the member follow each other: its metadata and its current assignment.
        group.updateMember(updated);
        Map<String, Object> answer = new LinkedHashMap<>();
        for (CoordinatorRecord record : records) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                var value = (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(value));
                List<Object> partitions = new ArrayList<>();
                value.topicPartitions().forEach(topic ->
                    partitions.add(List.of(topic.topicId().toString(), topic.partitions())));
                answer.put(key.memberId(), partitions);
            }
        }
        group.updateMember(updated);
        return Map.of("homogeneous", subscriptionType == SubscriptionType.HOMOGENEOUS, "targets", answer);
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    /** Topics as {"name": [id, partition count]}. */
    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, TopicMetadata> byName = new HashMap<>();
        private final Map<Uuid, TopicMetadata> byId = new HashMap<>();

        private Topics(JsonNode topics) {
            topics.properties().forEach(entry -> {
                Uuid id = Uuid.fromString(entry.getValue().get(0).asText());
                Topic topic = new Topic(entry.getKey(), id, entry.getValue().get(1).asInt());
                byName.put(topic.name(), topic);
                byId.put(id, topic);
            });
        }

        @Override
        public Set<Uuid> topicIds() {
            return byId.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return byName.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(byName.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(byId.get(id));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return byId.isEmpty();
        }
    }
}
