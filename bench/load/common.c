#include "common.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

int64_t now_nanos(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void sleep_until_nanos(int64_t deadline) {
    struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static const char *value_of(int argc, char **argv, int *index) {
    if (*index + 1 >= argc) fail(argv[*index], "needs a value");
    *index += 1;
    return argv[*index];
}

struct options parse_options(int argc, char **argv) {
    struct options options = {.partitions = 6, .size_bytes = 100, .count = 1000, .burst = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = value_of(argc, argv, &i);
        if (!strcmp(name, "--bootstrap")) options.bootstrap = value;
        else if (!strcmp(name, "--topic")) options.topic = value;
        else if (!strcmp(name, "--read-topic")) options.read_topic = value;
        else if (!strcmp(name, "--partitions")) options.partitions = atoi(value);
        else if (!strcmp(name, "--size")) options.size_bytes = atoi(value);
        else if (!strcmp(name, "--count")) options.count = atoll(value);
        else if (!strcmp(name, "--rate")) options.rate_per_second = atoll(value);
        else if (!strcmp(name, "--warm-up")) options.warm_up_count = atoll(value);
        else if (!strcmp(name, "--group")) options.group = value;
        else if (!strcmp(name, "--file")) options.file = value;
        else if (!strcmp(name, "--members")) options.members = atoi(value);
        else if (!strcmp(name, "--seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "--burst")) options.burst = atoll(value);
        else if (!strcmp(name, "--step")) options.step = atoll(value);
        else if (!strcmp(name, "-X")) {
            if (options.settings_count == 64) fail("-X", "too many settings");
            options.settings[options.settings_count++] = value;
        } else fail(name, "unknown option");
    }
    if (!options.bootstrap) fail("--bootstrap", "is needed");
    if (!options.topic) fail("--topic", "is needed");
    if (!options.read_topic) options.read_topic = options.topic;
    return options;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK) fail(name, error);
}

rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct options *options) {
    char error[512];
    set(conf, "bootstrap.servers", options->bootstrap);
    set(conf, "log_level", "3");
    if (type == RD_KAFKA_PRODUCER) set(conf, "message.timeout.ms", "60000");
    for (int i = 0; i < options->settings_count; i++) {
        char name[256];
        const char *equals = strchr(options->settings[i], '=');
        if (!equals || (size_t)(equals - options->settings[i]) >= sizeof name) fail(options->settings[i], "not name=value");
        memcpy(name, options->settings[i], (size_t)(equals - options->settings[i]));
        name[equals - options->settings[i]] = 0;
        /* Both kinds of client get the same list; each takes its own kind's settings. */
        if (!strncmp(name, "producer.", 9)) {
            if (type == RD_KAFKA_PRODUCER) set(conf, name + 9, equals + 1);
        } else if (!strncmp(name, "consumer.", 9)) {
            if (type == RD_KAFKA_CONSUMER) set(conf, name + 9, equals + 1);
        } else {
            set(conf, name, equals + 1);
        }
    }
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (!client) fail("rd_kafka_new", error);
    return client;
}

static int compare(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

void print_percentiles(int64_t *nanos, int64_t count) {
    qsort(nanos, (size_t)count, sizeof *nanos, compare);
    printf("\"p50_ms\": %.4f, \"p95_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f", (double)nanos[count / 2] / 1e6,
           (double)nanos[(count - 1) * 95 / 100] / 1e6, (double)nanos[(count - 1) * 99 / 100] / 1e6,
           (double)nanos[count - 1] / 1e6);
}
