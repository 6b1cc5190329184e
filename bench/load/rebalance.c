/* A group of `members` less one reads a topic that is being written to; then the last one joins. Prints how long it
 * takes until the newcomer owns its share and until everybody has what they will have, how many partitions were
 * assigned on the way, how long a partition that moved waited for its first record, and how long a record of a partition
 * that stayed with its member waited at most, while the group rebalanced and in as long a time before: a member that is
 * kept from its partitions gets late what is written meanwhile. */
#include "fleet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t longest_wait(const struct member *member, const char *kept, int64_t from, int64_t to) {
    int64_t longest = 0;
    for (int64_t i = 0; i < member->arrivals_count; i++) {
        const struct arrival *arrival = &member->arrivals[i];
        if (!kept[arrival->partition] || arrival->nanos < from || arrival->nanos >= to) continue;
        if (arrival->waited > longest) longest = arrival->waited;
    }
    return longest;
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    if (!options.group) fail("--group", "is needed");
    int count = options.members, partitions = options.partitions;
    struct member **members = calloc((size_t)count, sizeof *members);
    char *before = calloc((size_t)count, (size_t)partitions);
    start_producing(&options);
    for (int i = 0; i < count - 1; i++) members[i] = start_member(&options);
    wait_until_settled(members, count - 1, QUIET_SECONDS, 100);
    for (int i = 0; i < count - 1; i++)
        for (int p = 0; p < partitions; p++) before[i * partitions + p] = atomic_load(&members[i]->owned[p]);

    long long assigned_before = atomic_load(&assignments_count);
    for (int i = 0; i < count - 1; i++) members[i]->first_waits_count = 0;
    int64_t start = now_nanos();
    members[count - 1] = start_member(&options);
    struct member *newcomer = members[count - 1];
    int64_t owned_at = 0;
    int share = partitions / count;
    while (!owned_at && now_nanos() - start < 60000000000ll) {
        if (atomic_load(&newcomer->owned_count) >= share) owned_at = now_nanos();
        sleep_until_nanos(now_nanos() + 1000000);
    }
    if (!owned_at) fail("the newcomer", "did not get its share within a minute");
    wait_until_settled(members, count, 6, 100);
    int64_t end = atomic_load(&last_change_nanos);
    long long moved = atomic_load(&assignments_count) - assigned_before;
    sleep_until_nanos(now_nanos() + 1000000000);
    stop_producing();

    int64_t longest = 0, longest_before = 0, until = end + 1000000000;
    int waits_count = 0;
    stop_members(members, count);
    for (int i = 0; i < count - 1; i++) {
        /* What a member kept is what it had before and had again when all was over: its last owned flags are gone with
         * the close, so the records that came after the end say what it had. */
        char *kept = calloc((size_t)partitions, 1);
        for (int64_t a = 0; a < members[i]->arrivals_count; a++) {
            const struct arrival *arrival = &members[i]->arrivals[a];
            if (arrival->nanos > end && before[i * partitions + arrival->partition]) kept[arrival->partition] = 1;
        }
        int64_t own = longest_wait(members[i], kept, start, until);
        int64_t own_before = longest_wait(members[i], kept, start - (until - start), start);
        if (own > longest) longest = own;
        if (own_before > longest_before) longest_before = own_before;
        free(kept);
    }
    for (int i = 0; i < count; i++) waits_count += members[i]->first_waits_count;
    int64_t *waits = calloc((size_t)waits_count + 1, sizeof *waits);
    waits_count = 0;
    for (int i = 0; i < count; i++)
        for (int w = 0; w < members[i]->first_waits_count; w++) waits[waits_count++] = members[i]->first_waits[w];
    printf("{\"newcomer_seconds\": %.4f, \"rebalance_seconds\": %.4f, \"wait_ms\": %.3f, "
           "\"wait_before_ms\": %.3f, \"assigned\": %lld, ",
           (double)(owned_at - start) / 1e9, (double)(end - start) / 1e9, (double)longest / 1e6,
           (double)longest_before / 1e6, moved);
    print_percentiles(waits, waits_count ? waits_count : 1);
    printf("}\n");
    return 0;
}
