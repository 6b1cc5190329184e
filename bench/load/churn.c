/* A group of ten reads a topic; `members` others join and leave within `seconds`, evenly, each staying for a fifth of
 * the time. Prints how many rebalances that made (as the one of the ten saw it that was told most often), how often a
 * partition was assigned to somebody on the way, and how long it took until the ten had all partitions again. */
#include "fleet.h"
#include <stdio.h>
#include <stdlib.h>

#define STAYING 10

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    if (!options.group) fail("--group", "is needed");
    struct member *staying[STAYING];
    struct member **passing = calloc((size_t)options.members, sizeof *passing);
    start_producing(&options);
    for (int i = 0; i < STAYING; i++) staying[i] = start_member(&options);
    wait_until_settled(staying, STAYING, QUIET_SECONDS, 100);
    long long assigned_before = atomic_load(&assignments_count);
    for (int i = 0; i < STAYING; i++) atomic_store(&staying[i]->rebalances_count, 0);
    int64_t start = now_nanos();
    int64_t step = (int64_t)(options.seconds * 0.8 * 1e9 / options.members), stay = (int64_t)(options.seconds * 0.2 * 1e9);
    int stayed = (int)(stay / step) + 1;
    for (int i = 0; i < options.members + stayed; i++) {
        sleep_until_nanos(start + i * step);
        if (i < options.members) passing[i] = start_member(&options);
        if (i >= stayed) stop_members(&passing[i - stayed], 1);
    }
    wait_until_settled(staying, STAYING, 6, 100);
    double seconds = (double)(atomic_load(&last_change_nanos) - start) / 1e9;
    long long moved = atomic_load(&assignments_count) - assigned_before;
    int rebalances = 0;
    for (int i = 0; i < STAYING; i++)
        if (atomic_load(&staying[i]->rebalances_count) > rebalances) rebalances = atomic_load(&staying[i]->rebalances_count);
    stop_producing();
    stop_members(staying, STAYING);
    printf("{\"rebalances\": %d, \"assigned\": %lld, \"seconds\": %.3f}\n", rebalances, moved, seconds);
    return 0;
}
