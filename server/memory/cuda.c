/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

/* Set once, by open_driver. */
static struct cuda_driver driver;
static bool driver_works;
static char driver_reason[CUDA_REASON_SIZE];

static const struct {
        const char *name;
        size_t offset;
} functions[] = {
#define CUDA_ENTRY(field, name, parameters) { #name, offsetof(struct cuda_driver, field) },
        CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};
_Static_assert(sizeof(struct cuda_driver) == FERRY_ARRAY_SIZE(functions) * sizeof(void *), "the table is complete");

static void find_functions(void *library)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(functions); i++) {
                void *function = dlsym(library, functions[i].name);

                if (!function) {
                        (void)snprintf(driver_reason, sizeof(driver_reason),
                                       "The CUDA driver library has no %s: install a driver of CUDA 11.4 or later",
                                       functions[i].name);
                        return;
                }
                memcpy((char *)&driver + functions[i].offset, &function, sizeof(function));
        }
}

static void open_driver(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        cuda_result result;

        if (!library) {
                (void)snprintf(driver_reason, sizeof(driver_reason),
                               "The CUDA driver library libcuda.so.1 was not found: install the NVIDIA driver");
                return;
        }
        find_functions(library);
        if (driver_reason[0])
                return;
        result = driver.init(0);
        if (result == CUDA_ERROR_NO_DEVICE)
                (void)snprintf(driver_reason, sizeof(driver_reason),
                               "The CUDA driver finds no GPU that this process may use");
        else if (result != CUDA_SUCCESS)
                (void)snprintf(driver_reason, sizeof(driver_reason), "The CUDA driver does not start: %s",
                               cuda_error_name(&driver, result));
        driver_works = driver_reason[0] == '\0';
        if (!driver_works)
                log_event(LOG_INFO, "GPU memory not available", LOG_S("reason", driver_reason));
}

const struct cuda_driver *cuda_open(const char **ret_reason)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void)pthread_once(&once, open_driver);
        if (!driver_works)
                *ret_reason = driver_reason;
        return driver_works ? &driver : NULL;
}

const char *cuda_error_name(const struct cuda_driver *cuda, cuda_result result)
{
        const char *name = NULL;

        return cuda->get_error_name(result, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}
