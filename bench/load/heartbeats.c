/* Sends heartbeats that are ready made in a file over `members` connections for `seconds`, each connection one after
 * the other, and prints how many were answered a second and the percentiles of the time to the answer. With a rate the
 * time counts from the moment at which a heartbeat was due. A frame in the file is as it goes over the wire, with a
 * correlation id that is not looked at. For several brokers, `bootstrap` has their addresses and `file` as many files,
 * separated by commas; each broker gets its share of the connections. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "common.h"

#define HEARTBEAT 12

#define MOST_BROKERS 64

static struct options options;
static int64_t start_nanos;

struct broker {
    const char *address;
    unsigned char **frames;
    int64_t frames_count;
    int connections;
};

static struct broker brokers[MOST_BROKERS];
static int brokers_count;

struct connection {
    int number;
    struct broker *broker;
    int place; /* among the connections of its broker */
    pthread_t thread;
    int64_t *latencies;
    int64_t count, size;
};

static uint32_t read_length(const unsigned char *bytes) {
    uint32_t length;
    memcpy(&length, bytes, 4);
    return ntohl(length);
}

static void load_frames(struct broker *broker, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "cannot be opened");
    unsigned char head[4];
    while (fread(head, 1, 4, file) == 4) {
        uint32_t length = read_length(head);
        if (broker->frames_count % 1024 == 0)
            broker->frames = realloc(broker->frames, (size_t)(broker->frames_count + 1024) * sizeof *broker->frames);
        unsigned char *frame = malloc(length + 4);
        memcpy(frame, head, 4);
        if (fread(frame + 4, 1, length, file) != length) fail(path, "ends within a frame");
        broker->frames[broker->frames_count++] = frame;
    }
    fclose(file);
}

static void load_brokers(void) {
    char *addresses = strdup(options.bootstrap), *files = strdup(options.file);
    char *rest_of_addresses, *rest_of_files;
    char *address = strtok_r(addresses, ",", &rest_of_addresses), *file = strtok_r(files, ",", &rest_of_files);
    for (; address && file && brokers_count < MOST_BROKERS; brokers_count++) {
        brokers[brokers_count].address = address;
        load_frames(&brokers[brokers_count], file);
        address = strtok_r(NULL, ",", &rest_of_addresses);
        file = strtok_r(NULL, ",", &rest_of_files);
    }
    if (address || file) fail(options.file, "needs one file for each address");
}

static int connect_to(const char *bootstrap) {
    char host[64];
    const char *colon = strrchr(bootstrap, ':');
    if (!colon || (size_t)(colon - bootstrap) >= sizeof host) fail(bootstrap, "not address:port");
    memcpy(host, bootstrap, (size_t)(colon - bootstrap));
    host[colon - bootstrap] = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail(host, "not an IPv4 address");
    int descriptor = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail(bootstrap, "does not take connections");
    return descriptor;
}

static void read_fully(int descriptor, unsigned char *to, size_t length) {
    while (length) {
        ssize_t got = read(descriptor, to, length);
        if (got <= 0) fail("the broker", "closed a connection");
        to += got;
        length -= (size_t)got;
    }
}

static void ask(int descriptor, const unsigned char *frame) {
    size_t left = read_length(frame) + 4;
    const unsigned char *from = frame;
    while (left) {
        ssize_t sent = write(descriptor, from, left);
        if (sent <= 0) fail("the broker", "closed a connection");
        from += sent;
        left -= (size_t)sent;
    }
    unsigned char head[4], body[4096];
    read_fully(descriptor, head, 4);
    uint32_t length = read_length(head);
    if (length > sizeof body) fail("an answer", "is larger than any to a heartbeat");
    read_fully(descriptor, body, length);
    /* Correlation id, tagged fields from the flexible versions on, throttle time, error code. */
    int is_classic = frame[4] * 256 + frame[5] == HEARTBEAT;
    const unsigned char *error = body + (is_classic ? 8 : 9);
    if (error[0] || error[1]) {
        char code[16];
        snprintf(code, sizeof code, "%d", error[0] * 256 + error[1]);
        fail("a heartbeat got error", code);
    }
}

static void *beat(void *opaque) {
    struct connection *connection = opaque;
    const struct broker *broker = connection->broker;
    /* A member always uses the same connection. */
    int64_t own = (broker->frames_count - connection->place + broker->connections - 1) / broker->connections;
    int descriptor = connect_to(broker->address);
    int64_t end = start_nanos + (int64_t)(options.seconds * 1e9);
    for (int64_t turn = 0;; turn++) {
        int64_t index = connection->number + turn * options.members;
        int64_t due = now_nanos();
        if (options.rate_per_second) {
            due = start_nanos + index * 1000000000 / options.rate_per_second;
            if (due >= end) break;
            sleep_until_nanos(due);
        } else if (due >= end) {
            break;
        }
        ask(descriptor, broker->frames[connection->place + turn % own * broker->connections]);
        if (connection->count == connection->size) {
            connection->size = connection->size ? 2 * connection->size : 1024;
            connection->latencies = realloc(connection->latencies, (size_t)connection->size * sizeof(int64_t));
        }
        connection->latencies[connection->count++] = now_nanos() - due;
    }
    close(descriptor);
    return NULL;
}

int main(int argc, char **argv) {
    options = parse_options(argc, argv);
    load_brokers();
    struct connection *connections = calloc((size_t)options.members, sizeof *connections);
    for (int i = 0; i < options.members; i++) {
        connections[i].number = i;
        connections[i].broker = &brokers[i % brokers_count];
        connections[i].place = connections[i].broker->connections++;
    }
    for (int i = 0; i < brokers_count; i++)
        if (brokers[i].frames_count < brokers[i].connections || !brokers[i].connections)
            fail(brokers[i].address, "needs a frame for each connection, and a connection");
    start_nanos = now_nanos() + 100000000;
    for (int i = 0; i < options.members; i++) {
        pthread_create(&connections[i].thread, NULL, beat, &connections[i]);
    }
    int64_t total = 0;
    for (int i = 0; i < options.members; i++) {
        pthread_join(connections[i].thread, NULL);
        total += connections[i].count;
    }
    double seconds = (double)(now_nanos() - start_nanos) / 1e9;
    int64_t *latencies = calloc((size_t)total, sizeof *latencies), filled = 0;
    for (int i = 0; i < options.members; i++) {
        memcpy(latencies + filled, connections[i].latencies, (size_t)connections[i].count * sizeof *latencies);
        filled += connections[i].count;
    }
    printf("{\"per_second\": %.1f, ", (double)total / seconds);
    print_percentiles(latencies, total);
    printf("}\n");
    return 0;
}
