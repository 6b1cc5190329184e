/* Produces at a steady `rate`, reads the same topic or `read_topic`, to which another program copies the records, and
 * prints the percentiles of the time from a record's due time to its arrival at the consumer. The send time travels in
 * the record. The first `warm_up_count` records are not measured. */
#include "common.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct options options;
static rd_kafka_t *producer;
static rd_kafka_topic_t *topic;
static int64_t flow_start;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) fail("delivery", rd_kafka_err2str(message->err));
}

static void send_record(char *payload, int64_t due, int32_t partition) {
    memcpy(payload, &due, sizeof due);
    if (rd_kafka_produce(topic, partition, 2 /* RD_KAFKA_MSG_F_COPY */, payload, (size_t)options.size_bytes, NULL, 0,
                         NULL) == -1)
        fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
    rd_kafka_poll(producer, 0);
}

static void *produce(void *unused) {
    (void)unused;
    char *payload = calloc(1, (size_t)options.size_bytes);
    for (int64_t i = 0; i < options.warm_up_count + options.count; i++) {
        int64_t due = flow_start + i * 1000000000 / options.rate_per_second;
        sleep_until_nanos(due);
        send_record(payload, due, (int32_t)(i % options.partitions));
    }
    rd_kafka_flush(producer, 10000);
    free(payload);
    return NULL;
}

int main(int argc, char **argv) {
    options = parse_options(argc, argv);
    if (options.size_bytes < (int)sizeof(int64_t)) fail("--size", "must hold the send time (8 bytes)");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    producer = new_client(RD_KAFKA_PRODUCER, conf, &options);
    topic = rd_kafka_topic_new(producer, options.topic, NULL);
    conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "group.id", "bench", NULL, 0);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", NULL, 0);
    rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, conf, &options);
    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(options.partitions);
    /* Records of an earlier run lie before the present end. */
    for (int i = 0; i < options.partitions; i++) {
        int64_t low, high;
        rd_kafka_resp_err_t error;
        /* The partition of a new topic may have no leader for a moment. */
        for (int attempts = 0; attempts < 100; attempts++) {
            error = rd_kafka_query_watermark_offsets(consumer, options.read_topic, i, &low, &high, 30000);
            if (!error) break;
            sleep_until_nanos(now_nanos() + 100000000);
        }
        if (error) fail("end of the topic", rd_kafka_err2str(error));
        rd_kafka_topic_partition_list_add(partitions, options.read_topic, i)->offset = high;
    }

    /* One record per partition goes first, with no time in it: when all have arrived, both sides are connected. */
    char *payload = calloc(1, (size_t)options.size_bytes);
    for (int i = 0; i < options.partitions; i++) send_record(payload, 0, i);
    rd_kafka_flush(producer, 30000);
    rd_kafka_assign(consumer, partitions);

    int64_t *latencies = calloc((size_t)options.count, sizeof *latencies);
    int64_t began = now_nanos(), arrived = 0, measured = 0, last_arrival = began;
    int warm = 0;
    pthread_t thread;
    while (arrived < options.warm_up_count + options.count) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 1000);
        int64_t now = now_nanos();
        if (now - last_arrival > 60000000000ll) fail("end to end", "nothing arrived for 60 seconds");
        if (!message) continue;
        if (message->err) fail("consume", rd_kafka_err2str(message->err));
        int64_t due;
        memcpy(&due, message->payload, sizeof due);
        if (due >= began) {
            if (arrived++ >= options.warm_up_count) latencies[measured++] = now - due;
        } else if (!due && ++warm == options.partitions) {
            flow_start = now_nanos();
            pthread_create(&thread, NULL, produce, NULL);
        } /* Otherwise the copying program has repeated a record of an earlier run. */
        last_arrival = now;
        rd_kafka_message_destroy(message);
    }
    pthread_join(thread, NULL);
    printf("{\"records\": %lld, ", (long long)measured);
    print_percentiles(latencies, measured);
    printf("}\n");
    rd_kafka_topic_partition_list_destroy(partitions);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(producer);
    return 0;
}
