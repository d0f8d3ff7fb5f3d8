/* Preloaded: fsync and fdatasync of files whose name ends in "-wal" fail while the file named by FSYNC_FAILS exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd) {
    char link[64], name[PATH_MAX];
    const char *flag = getenv("FSYNC_FAILS");
    if (flag == NULL || access(flag, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, name, sizeof name);
    return size > 4 && memcmp(name + size - 4, "-wal", 4) == 0;
}

static int call(const char *name, int fd) {
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return call("fsync", fd); }
int fdatasync(int fd) { return call("fdatasync", fd); }
