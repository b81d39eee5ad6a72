/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_COMMIT_H
#define FERRY_COMMIT_H

/* The commit that was built, "-dirty" after it if the sources were changed; NULL = not known. */
extern const char *const ferry_commit;

/* What --version prints after the name: "0.1.0 (0123456789ab)", without the commit where it is not known. */
extern const char *const ferry_full_version;

#endif
