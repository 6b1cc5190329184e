/* A group of consumers in one process, each with a thread of its own that polls, and what they see. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "common.h"

/* A group that has been quiet for so long is between two heartbeats, which clients send every 3 s, or every 5 s with the
 * consumer protocol: who joined in the moment of a heartbeat would win a whole interval, or lose it, by chance. */
#define QUIET_SECONDS 7.5

struct arrival {
    int64_t nanos;
    int64_t waited;    /* nanoseconds since the record was written */
    int32_t partition;
};

struct member {
    const struct options *options;
    rd_kafka_t *client;
    pthread_t thread;
    atomic_int is_leaving;
    atomic_int owned_count;
    atomic_int rebalances_count;   /* assignments it was told of, empty ones too */
    atomic_char *owned;            /* by partition */
    int64_t *assigned_at;          /* by partition: when it was assigned last, until its first record has come */
    struct arrival *arrivals;      /* records, in the order in which they came */
    int64_t arrivals_count, arrivals_size;
    int64_t *first_waits;          /* nanoseconds until a partition's first record came, from its assignment on, or from
                                      when the record was written if that was later */
    int first_waits_count, first_waits_size;
};

/* How often a partition was assigned to any member, and when anything was assigned or revoked last. */
extern atomic_llong assignments_count, last_change_nanos;

/* Starts a member that subscribes to the options' topic. */
struct member *start_member(const struct options *options);

/* Lets them leave the group, all at once, ends their threads and closes the clients. What they saw stays readable. */
void stop_members(struct member **members, int count);

/* Waits until `count` members own all partitions and nothing has changed for `quiet_seconds`. */
void wait_until_settled(struct member **members, int count, double quiet_seconds, double limit_seconds);

/* Sends `rate_per_second` records of `size_bytes`, round the partitions, until it is stopped. A record begins with the
 * time at which it was written, in nanoseconds. */
void start_producing(const struct options *options);
void stop_producing(void);
