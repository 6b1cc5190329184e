/* Reads `count` records of a topic from its start, without a group, and prints the time it took.
 *
 * The client looks the leaders up before the clock starts: an assignment that it can't place yet makes librdkafka back
 * off for half a second, whatever the broker. */
#include "common.h"
#include <stdio.h>
#include <stdlib.h>

enum { RUN = 10000 };

int main(int argc, char **argv) {
    static rd_kafka_message_t *run[RUN];
    struct options options = parse_options(argc, argv);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "group.id", "bench", NULL, 0);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", NULL, 0);
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf, &options);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);

    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(options.partitions);
    for (int i = 0; i < options.partitions; i++)
        rd_kafka_topic_partition_list_add(partitions, options.topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;

    for (int i = 0; i < options.partitions; i++) {
        int64_t low, high;
        rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(client, options.topic, i, &low, &high, 30000);
        if (error) fail("query watermark offsets", rd_kafka_err2str(error));
    }

    double cpu_before = cpu_seconds();
    int64_t start = now_nanos(), records = 0, bytes = 0, first_record = 0;
    rd_kafka_resp_err_t error = rd_kafka_assign(client, partitions);
    if (error) fail("assign", rd_kafka_err2str(error));
    while (records < options.count) {
        ssize_t length = rd_kafka_consume_batch_queue(queue, 1000, run, RUN);
        if (now_nanos() - start > 120000000000ll) fail("consume", "not all records arrived within two minutes");
        for (ssize_t i = 0; i < length; i++) {
            if (run[i]->err) fail("consume", rd_kafka_err2str(run[i]->err));
            records++;
            bytes += (int64_t)run[i]->len;
            rd_kafka_message_destroy(run[i]);
        }
        if (!first_record && records) first_record = now_nanos() - start;
    }
    double seconds = (double)(now_nanos() - start) / 1e9;
    printf("{\"seconds\": %.6f, \"records\": %lld, \"bytes\": %lld, \"first_record_ms\": %.3f, "
           "\"client_cpu_seconds\": %.4f}\n",
           seconds, (long long)records, (long long)bytes, (double)first_record / 1e6, cpu_seconds() - cpu_before);
    rd_kafka_topic_partition_list_destroy(partitions);
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
    return 0;
}
