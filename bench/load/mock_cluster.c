/* Serves librdkafka's mock cluster (one broker, in memory) until standard input closes.
 *
 * Prints "ready HOST:PORT". The mock has no CreateTopics, so a line "NAME PARTITIONS" on standard input makes a topic
 * and is answered with "created". */
#include "common.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    char error[512], line[512], name[256];
    int partitions;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", NULL, 0); /* it would warn that it has no bootstrap servers */
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (!client) fail("rd_kafka_new", error);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(client, 1);
    if (!cluster) fail("rd_kafka_mock_cluster_new", "failed");
    rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
    printf("ready %s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%255s %d", name, &partitions) != 2) fail("standard input", "expected NAME PARTITIONS");
        rd_kafka_resp_err_t failure = rd_kafka_mock_topic_create(cluster, name, partitions, 1);
        if (failure) fail(name, rd_kafka_err2str(failure));
        printf("created\n");
        fflush(stdout);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(client);
    return 0;
}
