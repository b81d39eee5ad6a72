/* SPDX-License-Identifier: Apache-2.0 */
/* The installed header compiles alone, links, and shows what the library exports: also built as C++. */
#include <ferry/aio.h>
#include <ferry/ferry.h>

#if defined(__LP64__) && !defined(__cplusplus)
/* A size that changes raises the soversion: new fields come from the reserved room. */
#define SIZE(name, size) _Static_assert(sizeof(struct ferry_##name) == (size), #name)
SIZE(options, 120);
SIZE(problem, 1064);
SIZE(worker_info, 1056);
SIZE(limits, 440);
SIZE(peer, 312);
SIZE(peer_info, 1000);
SIZE(peer_list, 64);
SIZE(region, 1240);
SIZE(region_spec, 112);
SIZE(region_list, 56);
SIZE(descriptor, 72);
SIZE(range, 32);
SIZE(operation, 1608);
SIZE(operation_spec, 192);
SIZE(operation_query, 120);
SIZE(operation_list, 56);
SIZE(operation_result, 56);
SIZE(operation_results, 48);
SIZE(watch, 104);
SIZE(answer, 728);
SIZE(exchange, 176);
SIZE(aio_result, 72);
#endif

int main(void)
{
        struct ferry *f = 0;
        if (ferry_new("http://127.0.0.1:1", 0, &f) != 0)
                return 1;
        ferry_free(f);
        return ferry_error_from_code("peer-lost", 0) == FERRY_E_PEER_LOST && ferry_kind_is_passive(FERRY_READABLE) ? 0
                                                                                                                   : 1;
}
