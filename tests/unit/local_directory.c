/* SPDX-License-Identifier: Apache-2.0 */
#include "local_directory.h"

#include <stdlib.h>
#include <unistd.h>

#include "test.h"

static char directory[] = "/tmp/ferry-unit-XXXXXX";

static void remove_directory(void)
{
        (void)rmdir(directory);
}

const char *local_directory(void)
{
        static bool made;

        if (!made) {
                assert_non_null(mkdtemp(directory));
                made = true;
                (void)atexit(remove_directory);
        }
        return directory;
}
