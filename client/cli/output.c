/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_mask_controls(char *text)
{
        for (unsigned char *c = (unsigned char *)text; *c; c++) {
                bool wide = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0; /* U+0080 to U+009F in UTF-8 */
                if (*c < ' ' || *c == 0x7f || wide)
                        *c = '?';
                if (wide)
                        *++c = '?';
        }
}

int cli_fail(int status, const char *format, ...)
{
        char *text = NULL;
        va_list arguments;
        va_start(arguments, format);
        int n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n >= 0) {
                cli_mask_controls(text);
                fprintf(stderr, "ferry: %s\n", text);
                free(text);
        } else {
                fprintf(stderr, "ferry: %s\n", strerror(ENOMEM));
        }
        return status;
}

int cli_write(int fd, const void *data, size_t size)
{
        while (size) {
                ssize_t n = write(fd, data, size);
                if (n < 0 && errno == EINTR && !signals_caught())
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                data = (const char *)data + n;
                size -= (size_t)n;
        }
        return 0;
}

int cli_print(const char *text)
{
        size_t size = strlen(text);
        int r = cli_write(STDOUT_FILENO, text, size);
        if (r == 0 && (size == 0 || text[size - 1] != '\n'))
                r = cli_write(STDOUT_FILENO, "\n", 1);
        if (r == -EPIPE)
                return CLI_PROBLEM; /* EPIPE: the reader has closed the pipe */
        return r < 0 ? cli_usage_error("standard output: %s", strerror(-r)) : CLI_OK;
}

int cli_flush(void)
{
        if (fflush(stdout) == 0)
                return CLI_OK;
        return errno == EPIPE ? CLI_PROBLEM : cli_usage_error("standard output: %s", strerror(errno));
}

void cli_bytes_format(char *text, size_t size, double bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
        size_t unit = 0;
        while (bytes >= 1024 && unit + 1 < FERRY_ARRAY_SIZE(units)) {
                bytes /= 1024;
                unit++;
        }
        snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}
