/* The part of librdkafka's C API that the load programs use.
 *
 * The library itself is the one inside the confluent-kafka wheel, which klamm depends on anyway; that wheel ships
 * no headers. Names, types and values are those of librdkafka's rdkafka.h and rdkafka_mock.h, whose binary
 * interface is stable within version 2 (its INTRODUCTION.md, "Versioning"). So the bench needs a C compiler and
 * nothing else, and measures with the client that Python users have.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_mock_cluster_s rd_kafka_mock_cluster_t;

typedef enum { RD_KAFKA_PRODUCER, RD_KAFKA_CONSUMER } rd_kafka_type_t;
typedef enum { RD_KAFKA_CONF_UNKNOWN = -2, RD_KAFKA_CONF_INVALID = -1, RD_KAFKA_CONF_OK = 0 } rd_kafka_conf_res_t;

typedef int rd_kafka_resp_err_t;
#define RD_KAFKA_RESP_ERR_NO_ERROR 0
#define RD_KAFKA_RESP_ERR__QUEUE_FULL (-184)
#define RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS (-175)
#define RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS (-174)

#define RD_KAFKA_PARTITION_UA ((int32_t)-1)
#define RD_KAFKA_OFFSET_BEGINNING (-2)

typedef struct rd_kafka_message_s {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

typedef struct rd_kafka_topic_partition_s {
    char *topic;
    int32_t partition;
    int64_t offset;
    void *metadata;
    size_t metadata_size;
    void *opaque;
    rd_kafka_resp_err_t err;
    void *_private;
} rd_kafka_topic_partition_t;

typedef struct rd_kafka_topic_partition_list_s {
    int cnt;
    int size;
    rd_kafka_topic_partition_t *elems;
} rd_kafka_topic_partition_list_t;

const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(rd_kafka_resp_err_t error);

rd_kafka_conf_t *rd_kafka_conf_new(void);
rd_kafka_conf_res_t rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error,
                                      size_t error_size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *conf,
                                 void (*callback)(rd_kafka_t *, const rd_kafka_message_t *, void *));
void rd_kafka_conf_set_opaque(rd_kafka_conf_t *conf, void *opaque);
void rd_kafka_conf_set_rebalance_cb(rd_kafka_conf_t *conf,
                                    void (*callback)(rd_kafka_t *, rd_kafka_resp_err_t,
                                                     rd_kafka_topic_partition_list_t *, void *));
void rd_kafka_conf_set_offset_commit_cb(rd_kafka_conf_t *conf,
                                        void (*callback)(rd_kafka_t *, rd_kafka_resp_err_t,
                                                         rd_kafka_topic_partition_list_t *, void *));
rd_kafka_t *rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *error, size_t error_size);
void rd_kafka_destroy(rd_kafka_t *client);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *client, const char *topic, rd_kafka_topic_conf_t *conf);
void rd_kafka_topic_destroy(rd_kafka_topic_t *topic);

int rd_kafka_produce(rd_kafka_topic_t *topic, int32_t partition, int flags, void *payload, size_t length,
                     const void *key, size_t key_length, void *opaque);
int rd_kafka_produce_batch(rd_kafka_topic_t *topic, int32_t partition, int flags, rd_kafka_message_t *messages,
                           int count);
rd_kafka_resp_err_t rd_kafka_last_error(void);
int rd_kafka_poll(rd_kafka_t *client, int timeout_ms);
int rd_kafka_outq_len(rd_kafka_t *client);
rd_kafka_resp_err_t rd_kafka_flush(rd_kafka_t *client, int timeout_ms);

rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *list);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *list, const char *topic,
                                                              int32_t partition);
rd_kafka_resp_err_t rd_kafka_assign(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *partitions);
const char *rd_kafka_rebalance_protocol(rd_kafka_t *client);
rd_kafka_error_t *rd_kafka_incremental_assign(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *partitions);
rd_kafka_error_t *rd_kafka_incremental_unassign(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *partitions);
void rd_kafka_error_destroy(rd_kafka_error_t *error);
rd_kafka_resp_err_t rd_kafka_commit(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *offsets, int async);
rd_kafka_resp_err_t rd_kafka_subscribe(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *topics);
rd_kafka_resp_err_t rd_kafka_query_watermark_offsets(rd_kafka_t *client, const char *topic, int32_t partition,
                                                     int64_t *low, int64_t *high, int timeout_ms);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *client);
void rd_kafka_queue_destroy(rd_kafka_queue_t *queue);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **messages,
                                     size_t count);
rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *client, int timeout_ms);
rd_kafka_resp_err_t rd_kafka_consumer_close(rd_kafka_t *client);
void rd_kafka_message_destroy(rd_kafka_message_t *message);

rd_kafka_mock_cluster_t *rd_kafka_mock_cluster_new(rd_kafka_t *client, int brokers);
void rd_kafka_mock_cluster_destroy(rd_kafka_mock_cluster_t *cluster);
const char *rd_kafka_mock_cluster_bootstraps(const rd_kafka_mock_cluster_t *cluster);
rd_kafka_resp_err_t rd_kafka_mock_topic_create(rd_kafka_mock_cluster_t *cluster, const char *topic, int partitions,
                                               int replication_factor);
rd_kafka_resp_err_t rd_kafka_mock_group_initial_rebalance_delay_ms(rd_kafka_mock_cluster_t *cluster, int32_t delay_ms);
