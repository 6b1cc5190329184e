/* Prints the time from the creation of a consumer in a group nobody has used before to its first record. */
#include "common.h"
#include <stdio.h>

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    if (!options.group) fail("--group", "is needed");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "group.id", options.group, NULL, 0);
    rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", NULL, 0);
    int64_t start = now_nanos();
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf, &options);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, options.topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(client, topics);
    for (;;) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 100);
        if (now_nanos() - start > 60000000000ll) fail("first record", "none within a minute");
        if (!message) continue;
        int arrived = !message->err;
        rd_kafka_message_destroy(message);
        if (arrived) break;
    }
    printf("{\"seconds\": %.6f}\n", (double)(now_nanos() - start) / 1e9);
    fflush(stdout);
    rd_kafka_topic_partition_list_destroy(topics);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
    return 0;
}
