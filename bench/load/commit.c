/* Commits offsets of all partitions of a topic, as the only member of a group: --count times, in bursts of --burst
 * that are sent without waiting for an answer, each commit --step records further than the one before. Prints how long
 * it took. */
#include "common.h"
#include <stdio.h>

static int assigned;
static int64_t answered;

static void on_rebalance(rd_kafka_t *client, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *partitions,
                         void *opaque) {
    (void)opaque;
    int is_assignment = error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    assigned = is_assignment ? partitions->cnt : 0;
    rd_kafka_assign(client, is_assignment ? partitions : NULL);
}

static void on_commit(rd_kafka_t *client, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *offsets,
                      void *opaque) {
    (void)client, (void)offsets, (void)opaque;
    if (error) fail("commit", rd_kafka_err2str(error));
    answered++;
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    if (!options.group) fail("--group", "is needed");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "group.id", options.group, NULL, 0);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", NULL, 0);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_offset_commit_cb(conf, on_commit);
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf, &options);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, options.topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(client, topics);
    int64_t start = now_nanos();
    while (assigned != options.partitions) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 10);
        if (message) rd_kafka_message_destroy(message);
        if (now_nanos() - start > 60000000000ll) fail("assignment", "none within a minute");
    }

    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(options.partitions);
    for (int i = 0; i < options.partitions; i++) rd_kafka_topic_partition_list_add(offsets, options.topic, i);
    start = now_nanos();
    for (int64_t sent = 0; sent < options.count;) {
        for (int64_t i = 0; i < options.burst && sent < options.count; i++, sent++) {
            for (int p = 0; p < options.partitions; p++) offsets->elems[p].offset = 1000000 + sent * options.step;
            rd_kafka_resp_err_t error = rd_kafka_commit(client, offsets, 1);
            if (error) fail("commit", rd_kafka_err2str(error));
        }
        while (answered < sent) rd_kafka_poll(client, 10);
    }
    printf("{\"seconds\": %.6f}\n", (double)(now_nanos() - start) / 1e9);
    fflush(stdout);
    rd_kafka_topic_partition_list_destroy(offsets);
    rd_kafka_topic_partition_list_destroy(topics);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
    return 0;
}
