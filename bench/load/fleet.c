#include "fleet.h"
#include <stdlib.h>
#include <string.h>

atomic_llong assignments_count, last_change_nanos;

static void note_arrival(struct member *member, const rd_kafka_message_t *message, int64_t now) {
    int32_t partition = message->partition;
    if (member->arrivals_count == member->arrivals_size) {
        member->arrivals_size = member->arrivals_size ? 2 * member->arrivals_size : 4096;
        member->arrivals = realloc(member->arrivals, (size_t)member->arrivals_size * sizeof *member->arrivals);
    }
    int64_t written_at = 0;
    if (message->len >= sizeof written_at) memcpy(&written_at, message->payload, sizeof written_at);
    member->arrivals[member->arrivals_count++] = (struct arrival){now, now - written_at, partition};
    if (!member->assigned_at[partition]) return;
    if (member->first_waits_count == member->first_waits_size) {
        member->first_waits_size = member->first_waits_size ? 2 * member->first_waits_size : 64;
        member->first_waits = realloc(member->first_waits, (size_t)member->first_waits_size * sizeof(int64_t));
    }
    int64_t since = member->assigned_at[partition];
    /* Nobody can read what has not been written; other programs' records don't say when they were. */
    if (written_at > since && written_at < now) since = written_at;
    member->first_waits[member->first_waits_count++] = now - since;
    member->assigned_at[partition] = 0;
}

static void on_rebalance(rd_kafka_t *client, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *partitions,
                         void *opaque) {
    struct member *member = opaque;
    int is_incremental = !strcmp(rd_kafka_rebalance_protocol(client), "COOPERATIVE");
    int is_assignment = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    int64_t now = now_nanos();
    for (int i = 0; i < partitions->cnt; i++) {
        int32_t partition = partitions->elems[i].partition;
        atomic_store(&member->owned[partition], (char)is_assignment);
        member->assigned_at[partition] = is_assignment ? now : 0;
    }
    atomic_fetch_add(&member->owned_count, is_assignment ? partitions->cnt : -partitions->cnt);
    if (is_assignment) atomic_fetch_add(&assignments_count, partitions->cnt);
    if (is_assignment) atomic_fetch_add(&member->rebalances_count, 1);
    rd_kafka_error_t *error = NULL;
    if (is_incremental && is_assignment) error = rd_kafka_incremental_assign(client, partitions);
    else if (is_incremental) error = rd_kafka_incremental_unassign(client, partitions);
    else rd_kafka_assign(client, is_assignment ? partitions : NULL);
    if (error) rd_kafka_error_destroy(error);
    if (partitions->cnt) atomic_store(&last_change_nanos, now_nanos());
}

static void *poll_until_it_leaves(void *opaque) {
    struct member *member = opaque;
    while (!atomic_load(&member->is_leaving)) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(member->client, 50);
        if (!message) continue;
        if (!message->err) note_arrival(member, message, now_nanos());
        rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(member->client);
    rd_kafka_destroy(member->client);
    return NULL;
}

struct member *start_member(const struct options *options) {
    struct member *member = calloc(1, sizeof *member);
    member->options = options;
    member->owned = calloc((size_t)options->partitions, sizeof *member->owned);
    member->assigned_at = calloc((size_t)options->partitions, sizeof *member->assigned_at);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "group.id", options->group, NULL, 0);
    rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", NULL, 0);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_opaque(conf, member);
    member->client = new_client(RD_KAFKA_CONSUMER, conf, options);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, options->topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(member->client, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    pthread_create(&member->thread, NULL, poll_until_it_leaves, member);
    return member;
}

void stop_members(struct member **members, int count) {
    for (int i = 0; i < count; i++) atomic_store(&members[i]->is_leaving, 1);
    for (int i = 0; i < count; i++) pthread_join(members[i]->thread, NULL);
}

void wait_until_settled(struct member **members, int count, double quiet_seconds, double limit_seconds) {
    int64_t start = now_nanos();
    for (;;) {
        int owned = 0, is_complete = 1, partitions = members[0]->options->partitions;
        for (int i = 0; i < count; i++) owned += atomic_load(&members[i]->owned_count);
        for (int i = 0; i < count; i++)
            if (partitions >= count && !atomic_load(&members[i]->owned_count)) is_complete = 0;
        int64_t now = now_nanos();
        if (is_complete && owned == partitions &&
            (double)(now - atomic_load(&last_change_nanos)) > quiet_seconds * 1e9)
            return;
        if ((double)(now - start) > limit_seconds * 1e9) fail("the group", "did not settle in time");
        sleep_until_nanos(now + 20000000);
    }
}

static atomic_int is_producing;
static pthread_t producing;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) fail("delivery", rd_kafka_err2str(message->err));
}

/* In steps of this the partitions are all visited once a round, and neighbours a tenth of the round apart: in their own
 * order a member, which has ten neighbours, would get everything at one moment and nothing for the rest. */
static int stride_over(int partitions) {
    for (int stride = partitions / 10 - 1; stride > 1; stride--) {
        int a = partitions, b = stride;
        while (b) {
            int rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return stride;
    }
    return 1;
}

static void *produce(void *opaque) {
    const struct options *options = opaque;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf, options);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
    if (options->size_bytes < (int)sizeof(int64_t)) fail("--size", "has to leave room for the time");
    char *payload = calloc(1, (size_t)options->size_bytes);
    int64_t start = now_nanos();
    int stride = stride_over(options->partitions);
    for (int64_t i = 0; atomic_load(&is_producing); i++) {
        sleep_until_nanos(start + i * 1000000000 / options->rate_per_second);
        int64_t now = now_nanos();
        memcpy(payload, &now, sizeof now);
        rd_kafka_produce(topic, (int32_t)(i * stride % options->partitions), 2 /* RD_KAFKA_MSG_F_COPY */, payload,
                         (size_t)options->size_bytes, NULL, 0, NULL);
        rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, 10000);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
    free(payload);
    return NULL;
}

void start_producing(const struct options *options) {
    atomic_store(&is_producing, 1);
    pthread_create(&producing, NULL, produce, (void *)options);
}

void stop_producing(void) {
    atomic_store(&is_producing, 0);
    pthread_join(producing, NULL);
}
