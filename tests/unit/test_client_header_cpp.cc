/* SPDX-License-Identifier: Apache-2.0 */
/* The same program in the other language. */
#include "test_client_header.c"
