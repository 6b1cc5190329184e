/* Produces at a steady `rate` and prints the percentiles of the time from produce() to the acknowledgement.
 *
 * Each record's due time is fixed in advance, and its latency counts from there: a stall delays the records behind it
 * and is seen in their latency too (no coordinated omission).
 */
#include "common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t *latencies;
static int64_t acknowledged;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) fail("delivery", rd_kafka_err2str(message->err));
    int64_t due = (int64_t)message->_private;
    if (due) latencies[acknowledged++] = now_nanos() - due;
}

static void produce(rd_kafka_t *client, rd_kafka_topic_t *topic, const struct options *options, char *payload,
                    int64_t count, int measured) {
    int64_t start = now_nanos();
    for (int64_t i = 0; i < count; i++) {
        int64_t due = start + i * 1000000000 / options->rate_per_second;
        while (now_nanos() < due) {
            /* Acknowledgements are served while waiting; poll's millisecond is too coarse a wait for the rest. */
            if (rd_kafka_poll(client, due - now_nanos() > 2000000 ? 1 : 0) == 0) sleep_until_nanos(now_nanos() + 20000);
        }
        while (rd_kafka_produce(topic, (int32_t)(i % options->partitions), 0, payload, (size_t)options->size_bytes,
                                NULL, 0, (void *)(measured ? due : 0)) == -1) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(client, 1);
        }
    }
    while (rd_kafka_outq_len(client) > 0) rd_kafka_poll(client, 1);
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf, &options);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    char *payload = calloc(1, (size_t)options.size_bytes);
    latencies = calloc((size_t)options.count, sizeof *latencies);

    produce(client, topic, &options, payload, options.warm_up_count ? options.warm_up_count : options.partitions, 0);
    double cpu_before = cpu_seconds();
    int64_t start = now_nanos();
    produce(client, topic, &options, payload, options.count, 1);
    double seconds = (double)(now_nanos() - start) / 1e9;
    printf("{\"seconds\": %.6f, \"records\": %lld, ", seconds, (long long)acknowledged);
    print_percentiles(latencies, acknowledged);
    printf(", \"client_cpu_seconds\": %.4f}\n", cpu_seconds() - cpu_before);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    return 0;
}
