/* What every load program needs: options, a clock, percentiles, and one line of JSON as the answer. */
#pragma once
#include <stdint.h>
#include "librdkafka.h"

struct options {
    const char *bootstrap;
    const char *topic;
    const char *read_topic; /* the topic to read, if it is another one than the topic to write */
    int partitions;
    int size_bytes;
    int64_t count;
    int64_t rate_per_second; /* 0: as fast as it goes */
    int64_t warm_up_count;   /* records sent before the clock starts */
    const char *group;
    const char *file;
    int members;
    double seconds;
    int64_t burst; /* requests sent at once */
    int64_t step;
    const char *settings[64]; /* name=value pairs of librdkafka's configuration */
    int settings_count;
};

struct options parse_options(int argc, char **argv);

/* A client with the options' settings; ends the program with the reason when it cannot be made. */
rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct options *options);

int64_t now_nanos(void);
double cpu_seconds(void);
void sleep_until_nanos(int64_t deadline);
void fail(const char *what, const char *why);

/* Sorts `nanos` and prints "p50_ms": …, "p95_ms": …, "p99_ms": …, "max_ms": … without a trailing comma. */
void print_percentiles(int64_t *nanos, int64_t count);
