/* Makes fsync and fdatasync take SLOW_FSYNC_MS longer: a slow disk, for tests. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static int slowly(const char *name, int file) {
    const char *setting = getenv("SLOW_FSYNC_MS");
    long wait = setting ? atol(setting) : 0;
    struct timespec time = {wait / 1000, wait % 1000 * 1000000L};
    nanosleep(&time, NULL);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
