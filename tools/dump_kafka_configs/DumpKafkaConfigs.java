import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints every configuration key of Apache Kafka's broker, topics, groups and client metrics as JSON, a key a line.
 *
 * Run as: java -cp 'JARS/*' tools/dump_kafka_configs/DumpKafkaConfigs.java > src/klamm/config/kafka_configs.json
 * where JARS holds org.apache.kafka:kafka_2.13 and what it depends on.
 */
public class DumpKafkaConfigs {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> scopes = new LinkedHashMap<>();
        Map<String, Object> broker = keys(AbstractKafkaConfig.CONFIG_DEF);
        // Kafka defines these for dynamic use only, and its documentation lists them among the broker's.
        Map<String, Object> quotas = keys(QuotaConfig.brokerQuotaConfigs());
        for (Object quota : quotas.values()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> entry = (Map<String, Object>) quota;
            entry.put("dynamic_only", true);
        }
        broker.putAll(quotas);
        DynamicBrokerConfig.dynamicConfigUpdateModes().forEach((name, mode) -> {
            @SuppressWarnings("unchecked")
            Map<String, Object> entry = (Map<String, Object>) broker.get(name);
            entry.put("update_mode", mode);
        });
        scopes.put("broker", broker);
        scopes.put("topic", keys(LogConfig.configDefCopy()));
        scopes.put("group", keys(GroupConfig.CONFIG_DEF));
        scopes.put("client_metrics", keys(ClientMetricsConfigs.configDef()));

        StringBuilder out = new StringBuilder("{\n\"kafka_version\": ");
        write(out, AppInfoParser.getVersion());
        out.append(",\n\"topic_synonyms\": ");
        write(out, topicSynonyms());
        out.append(",\n\"group_synonyms\": ");
        Map<String, Object> groupSynonyms = new TreeMap<>();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach(
            (name, synonym) -> synonym.ifPresent(brokerName -> groupSynonyms.put(name, brokerName)));
        write(out, groupSynonyms);
        scopes.forEach((scope, entries) -> {
            out.append(",\n");
            write(out, scope);
            out.append(": {");
            String separator = "\n";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) entries).entrySet()) {
                out.append(separator);
                write(out, entry.getKey());
                out.append(": ");
                write(out, entry.getValue());
                separator = ",\n";
            }
            out.append("\n}");
        });
        out.append("\n}");
        System.out.println(out);
    }

    private static Map<String, Object> keys(ConfigDef definition) throws Exception {
        Map<String, Object> result = new TreeMap<>();
        for (ConfigKey key : definition.configKeys().values()) {
            Map<String, Object> entry = new LinkedHashMap<>();
            entry.put("type", key.type.name());
            // A key without "default" is required; null is a default as well.
            if (key.hasDefault()) entry.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
            entry.put("importance", key.importance.name());
            if (key.validator != null) {
                entry.put("valid", key.validator.toString());
                entry.put("check", check(key.validator));
            }
            if (key.internalConfig) entry.put("internal", true);
            entry.put("doc", key.documentation == null ? "" : key.documentation);
            result.put(key.name, entry);
        }
        return result;
    }

    /** The rule that a validator enforces, as a list that begins with its name; a rule in code is named by its class. */
    private static List<Object> check(ConfigDef.Validator validator) throws Exception {
        List<Object> result = new ArrayList<>();
        switch (validator.getClass().getSimpleName()) {
            case "Range" -> {
                result.add("range");
                result.add(field(validator, "min"));
                result.add(field(validator, "max"));
            }
            case "ValidString" -> {
                result.add("one_of");
                result.add(field(validator, "validStrings"));
            }
            case "CaseInsensitiveValidString" -> {
                result.add("one_of_ignoring_case");
                result.add(((Collection<?>) field(validator, "validStrings")).stream().sorted().toList());
            }
            case "ValidList" -> {
                result.add("list_of");
                result.add(field(field(validator, "validString"), "validStrings"));
                result.add(field(validator, "isEmptyAllowed"));
                result.add(field(validator, "isNullAllowed"));
            }
            case "NonEmptyString" -> result.add("non_empty");
            case "NonNullValidator" -> result.add("non_null");
            case "LambdaValidator" -> result.add("gzip_level");
            default -> {
                String name = validator.getClass().getName();
                result.add("code");
                result.add(name.substring(name.lastIndexOf('.') + 1));
            }
        }
        return result;
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    /** Topic key to the broker keys that set its default, first one first, each with the unit it is counted in. */
    private static Map<String, Object> topicSynonyms() {
        Map<String, Object> result = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            List<Object> list = new ArrayList<>();
            for (ConfigSynonym synonym : synonyms)
                list.add(List.of(synonym.name(), Long.parseLong(synonym.converter().apply("1").replaceAll("^$", "1"))));
            result.put(name, list);
        });
        return result;
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof Number number) {
            out.append(number);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                write(out, entry.getKey());
                out.append(": ");
                write(out, entry.getValue());
                separator = ", ";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> collection) {
            String separator = "[";
            for (Object item : collection) {
                out.append(separator);
                write(out, item);
                separator = ", ";
            }
            out.append(collection.isEmpty() ? "[]" : "]");
        } else {
            out.append('"');
            for (char character : value.toString().toCharArray()) {
                switch (character) {
                    case '"' -> out.append("\\\"");
                    case '\\' -> out.append("\\\\");
                    case '\n' -> out.append("\\n");
                    case '\t' -> out.append("\\t");
                    default -> {
                        if (character < ' ' || character > '~') out.append(String.format("\\u%04x", (int) character));
                        else out.append(character);
                    }
                }
            }
            out.append('"');
        }
    }
}
