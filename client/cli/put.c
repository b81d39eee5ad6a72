/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http.h"

int cli_run_put(struct cli *cli, int argc, char **argv)
{
        struct stat file;
        int fd = strcmp(argv[2], "-") == 0 ? dup(STDIN_FILENO) : open(argv[2], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return cli_usage_error("%s: %s", argv[2], strerror(errno));
        struct ferry_exchange exchange = {
                .method = "PUT",
                .content_type = "application/octet-stream",
                .source = http_read,
                .source_context = &fd,
                .source_size = FERRY_SIZE_UNKNOWN,
        };
        if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
                off_t at = lseek(fd, 0, SEEK_CUR);
                exchange.source_size = at >= 0 && at < file.st_size ? (uint64_t)(file.st_size - at) : 0;
        }
        int status = http_perform(cli, &exchange, argv[1], STDOUT_FILENO);
        close(fd);
        return status;
}
