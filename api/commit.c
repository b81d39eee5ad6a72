/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/commit.h>

#include <stddef.h>

#include "commit_id.h"

const char *const ferry_commit = sizeof(COMMIT_ID) > 1 ? COMMIT_ID : NULL;
const char *const ferry_full_version = sizeof(COMMIT_ID) > 1 ? FERRY_VERSION " (" COMMIT_ID ")" : FERRY_VERSION;
