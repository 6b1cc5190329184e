import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Kafka's admin client, one operation of it per command. */
final class AdminOperations {
    private final Admin admin;

    AdminOperations(String bootstrap) {
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    Object perform(JsonNode command) throws Exception {
        return switch (command.get("do").asText()) {
            case "create topic" -> createTopic(command);
            case "describe topic" -> describeTopic(command);
            case "list topics" -> new ArrayList<>(admin.listTopics().names().get());
            case "delete topic" -> admin.deleteTopics(List.of(topic(command))).all().get();
            case "add partitions" ->
                admin.createPartitions(Map.of(topic(command), NewPartitions.increaseTo(command.get("count").asInt()))).all().get();
            case "topic config" -> topicConfig(command);
            case "set topic config" -> setTopicConfig(command);
            case "list offsets" -> listOffsets(command);
            case "delete records" -> deleteRecords(command);
            case "describe cluster" -> describeCluster();
            case "describe log dirs" -> describeLogDirs(command);
            case "describe group" -> describeGroup(command);
            case "list groups" -> admin.listGroups().all().get().stream().map(group -> group.groupId()).toList();
            case "group offsets" -> groupOffsets(command);
            case "alter group offsets" -> alterGroupOffsets(command);
            case "delete group offsets" ->
                admin.deleteConsumerGroupOffsets(group(command), new HashSet<>(partitions(command))).all().get();
            case "delete group" -> admin.deleteConsumerGroups(List.of(group(command))).all().get();
            default -> throw new IllegalArgumentException(command.toString());
        };
    }

    private static String topic(JsonNode command) {
        return command.get("topic").asText();
    }

    private static String group(JsonNode command) {
        return command.get("group").asText();
    }

    private static List<TopicPartition> partitions(JsonNode command) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode index : command.get("partitions")) partitions.add(new TopicPartition(topic(command), index.asInt()));
        return partitions;
    }

    private Object createTopic(JsonNode command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        if (command.has("configs"))
            command.get("configs").properties().forEach(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic wanted = new NewTopic(topic(command), command.get("count").asInt(), (short) 1).configs(configs);
        CreateTopicsResult result = admin.createTopics(List.of(wanted));
        result.all().get();
        return Map.of(
            "id", result.topicId(topic(command)).get().toString(),
            "partitions", result.numPartitions(topic(command)).get(),
            "replication_factor", result.replicationFactor(topic(command)).get(),
            "retention_ms", result.config(topic(command)).get().get("retention.ms").value());
    }

    private Object describeTopic(JsonNode command) throws Exception {
        TopicCollection wanted = command.has("id")
            ? TopicCollection.ofTopicIds(List.of(Uuid.fromString(command.get("id").asText())))
            : TopicCollection.ofTopicNames(List.of(topic(command)));
        TopicDescription description = command.has("id")
            ? admin.describeTopics(wanted).topicIdValues().values().iterator().next().get()
            : admin.describeTopics(wanted).topicNameValues().values().iterator().next().get();
        return Map.of(
            "name", description.name(),
            "id", description.topicId().toString(),
            "internal", description.isInternal(),
            "partitions", description.partitions().size(),
            "leaders", description.partitions().stream().map(partition -> partition.leader().id()).distinct().toList(),
            "in_sync", description.partitions().stream().allMatch(partition -> partition.isr().size() == 1));
    }

    private Object topicConfig(JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(command));
        Map<String, Object> answer = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries())
            answer.put(entry.name(), List.of(String.valueOf(entry.value()), entry.source().name(), entry.type().name()));
        return answer;
    }

    private Object setTopicConfig(JsonNode command) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(command));
        AlterConfigOp.OpType operation = AlterConfigOp.OpType.valueOf(command.get("operation").asText());
        ConfigEntry entry = new ConfigEntry(command.get("key").asText(), command.path("value").asText(null));
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(entry, operation)))).all().get();
    }

    private Object listOffsets(JsonNode command) throws Exception {
        OffsetSpec spec = switch (command.get("spec").asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(command.get("spec").asLong());
        };
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        for (TopicPartition partition : partitions(command)) wanted.put(partition, spec);
        Map<Integer, Object> answer = new TreeMap<>();
        for (Map.Entry<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> entry :
            admin.listOffsets(wanted).all().get().entrySet())
            answer.put(entry.getKey().partition(), List.of(entry.getValue().offset(), entry.getValue().timestamp()));
        return answer;
    }

    private Object deleteRecords(JsonNode command) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        for (TopicPartition partition : partitions(command))
            wanted.put(partition, RecordsToDelete.beforeOffset(command.get("before").asLong()));
        Map<Integer, Object> answer = new TreeMap<>();
        var futures = admin.deleteRecords(wanted).lowWatermarks();
        for (TopicPartition partition : wanted.keySet())
            answer.put(partition.partition(), futures.get(partition).get().lowWatermark());
        return answer;
    }

    private Object describeCluster() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        return Map.of(
            "id", cluster.clusterId().get(),
            "controller", cluster.controller().get().id(),
            "brokers", cluster.nodes().get().stream().map(node -> node.host() + ":" + node.port()).toList());
    }

    /** The size of each partition of "topic" on disk. */
    private Object describeLogDirs(JsonNode command) throws Exception {
        List<Integer> brokers = admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList();
        Map<Integer, Object> answer = new TreeMap<>();
        for (Map<String, LogDirDescription> folders : admin.describeLogDirs(brokers).allDescriptions().get().values())
            for (LogDirDescription folder : folders.values())
                folder.replicaInfos().forEach((partition, info) -> {
                    if (partition.topic().equals(topic(command))) answer.put(partition.partition(), info.size());
                });
        return answer;
    }

    private Object describeGroup(JsonNode command) throws Exception {
        ConsumerGroupDescription description =
            admin.describeConsumerGroups(List.of(group(command))).all().get().get(group(command));
        List<Object> members = new ArrayList<>();
        description.members().forEach(member -> {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("client_id", member.clientId());
            map.put("host", member.host());
            map.put("partitions",
                member.assignment().topicPartitions().stream().map(TopicPartition::partition).sorted().toList());
            members.add(map);
        });
        return Map.of(
            "state", description.groupState().name(),
            "type", description.type().name(),
            "assignor", description.partitionAssignor(),
            "members", members);
    }

    /** The committed offset per partition, over all topics. */
    private Object groupOffsets(JsonNode command) throws Exception {
        Map<Integer, Object> answer = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> offsets =
            admin.listConsumerGroupOffsets(group(command)).partitionsToOffsetAndMetadata().get();
        offsets.forEach((partition, offset) -> answer.put(
            partition.partition(), offset == null ? null : List.of(offset.offset(), offset.metadata())));
        return answer;
    }

    private Object alterGroupOffsets(JsonNode command) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : partitions(command))
            offsets.put(partition, new OffsetAndMetadata(command.get("offset").asLong(), command.path("metadata").asText("")));
        return admin.alterConsumerGroupOffsets(group(command), offsets).all().get();
    }
}
