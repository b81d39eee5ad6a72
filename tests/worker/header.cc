// SPDX-License-Identifier: Apache-2.0
#include <ferry/worker.h>

// The installed header compiles alone, and links, in C++.
int main()
{
        ferry_worker_request *request = ferry_worker_request_new(FERRY_READ);

        return request && !ferry_worker_request_free(request) ? 0 : 1;
}
