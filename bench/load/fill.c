/* Produces `count` records of `size` bytes, at a steady `rate` if there is one, and prints how long it took.
 *
 * Half of each record is the same in all, half is random hexadecimal digits: a codec finds something to do, and not
 * everything the same.
 */
#include "common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t failures;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) failures++;
}

static void make_random(char *payload, int size_bytes, uint64_t *random) {
    for (int i = size_bytes / 2; i < size_bytes;) {
        *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
        for (uint64_t bits = *random, left = 16; left && i < size_bytes; left--, bits >>= 4)
            payload[i++] = "0123456789abcdef"[bits & 15];
    }
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "delivery.report.only.error", "true", NULL, 0);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf, &options);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);
    char *payload = malloc((size_t)options.size_bytes);
    memset(payload, 'x', (size_t)options.size_bytes);
    uint64_t random = 88172645463325252ull;
    int64_t start = now_nanos();
    for (int64_t i = 0; i < options.count; i++) {
        if (options.rate_per_second) sleep_until_nanos(start + i * 1000000000 / options.rate_per_second);
        make_random(payload, options.size_bytes, &random);
        /* Runs per partition: with one record a partition in turn, batches would be as many and small. */
        int32_t partition = (int32_t)(i / (options.rate_per_second ? 1 : 1000) % options.partitions);
        while (rd_kafka_produce(topic, partition, 2 /* RD_KAFKA_MSG_F_COPY */, payload, (size_t)options.size_bytes, NULL, 0,
                                NULL) == -1) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(client, 1);
        }
        rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, 120000);
    if (failures) fail("delivery", "failed");
    printf("{\"seconds\": %.6f, \"records\": %lld}\n", (double)(now_nanos() - start) / 1e9, (long long)options.count);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(payload);
    return 0;
}
