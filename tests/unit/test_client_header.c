/* SPDX-License-Identifier: Apache-2.0 */
/* The installed header compiles alone, links, and shows what the library exports: also built as C++. */
#include <ferry/ferry.h>

int main(void)
{
        struct ferry *f = 0;
        if (ferry_new("http://127.0.0.1:1", 0, &f) != 0)
                return 1;
        ferry_free(f);
        return ferry_error_from_code("peer-lost", 0) == FERRY_E_PEER_LOST && ferry_kind_is_passive(FERRY_READABLE) ? 0
                                                                                                                   : 1;
}
