/* Produces `count` records of `size` bytes as fast as it goes, and prints the time until the last acknowledgement.
 *
 * Records are handed over in runs per partition and without a copy of the payload, and only failures are reported
 * back, so that the client costs as little as librdkafka allows.
 */
#include "common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 1000 };

static int64_t failures;
static rd_kafka_resp_err_t last_failure;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) {
        failures++;
        last_failure = message->err;
    }
}

static void produce(rd_kafka_t *client, rd_kafka_topic_t *topic, const struct options *options, char *payload,
                    int64_t count) {
    static rd_kafka_message_t run[RUN];
    int32_t partition = 0;
    while (count > 0) {
        int length = count < RUN ? (int)count : RUN;
        for (int i = 0; i < length; i++)
            run[i] = (rd_kafka_message_t){.payload = payload, .len = (size_t)options->size_bytes};
        rd_kafka_message_t *rest = run;
        int left = length;
        while (left > 0) {
            int taken = rd_kafka_produce_batch(topic, partition, 0, rest, left);
            rest += taken;
            left -= taken;
            if (left > 0) {
                if (rest->err != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("produce", rd_kafka_err2str(rest->err));
                rd_kafka_poll(client, 1);
                for (int i = 0; i < left; i++) rest[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
            }
        }
        rd_kafka_poll(client, 0);
        partition = (partition + 1) % options->partitions;
        count -= length;
    }
    /* flush() would cut the linger short and so measure another configuration. */
    while (rd_kafka_outq_len(client) > 0) rd_kafka_poll(client, 1);
    if (failures) fail("delivery", rd_kafka_err2str(last_failure));
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "delivery.report.only.error", "true", NULL, 0);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf, &options);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options.topic, NULL);

    char *payload = malloc((size_t)options.size_bytes);
    uint64_t random = 88172645463325252ull;
    for (int i = 0; i < options.size_bytes; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        payload[i] = (char)random;
    }
    produce(client, topic, &options, payload, options.warm_up_count ? options.warm_up_count : options.partitions);

    double cpu_before = cpu_seconds();
    int64_t start = now_nanos();
    produce(client, topic, &options, payload, options.count);
    double seconds = (double)(now_nanos() - start) / 1e9;
    printf("{\"seconds\": %.6f, \"records\": %lld, \"bytes\": %lld, \"client_cpu_seconds\": %.4f}\n", seconds,
           (long long)options.count, (long long)options.count * options.size_bytes, cpu_seconds() - cpu_before);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(payload);
    return 0;
}
