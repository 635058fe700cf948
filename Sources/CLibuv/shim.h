#pragma once
#include <uv.h>
#include <pthread.h>
#include <sys/eventfd.h>

/* glibc declares it only for _GNU_SOURCE. Names are at most 15 characters. */
extern int pthread_setname_np(pthread_t thread, const char *name);
static const int ff_eventfd_flags = EFD_CLOEXEC | EFD_NONBLOCK;
static inline void ff_name_thread(pthread_t thread, const char *name) { pthread_setname_np(thread, name); }

/* Asks the scheduler for short turns of the calling thread, so that it gets one soon (sched(7), Linux 6.12 and newer;
   older kernels accept and ignore it). glibc has no wrapper before 2.41. */
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
struct ff_sched_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};
extern long syscall(long number, ...);
static inline long ff_request_slice(uint64_t nanoseconds) {
    struct ff_sched_attr attributes = {.size = sizeof attributes, .runtime = nanoseconds};
    return syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* glibc declares these for _GNU_SOURCE only. */
extern int fallocate(int descriptor, int mode, off_t offset, off_t length);
extern ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t length, unsigned flags);
static inline int ff_punch_hole(int descriptor, off_t offset, off_t length) {
    return fallocate(descriptor, 0x02 | 0x01 /* FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, linux/falloc.h */, offset,
                     length);
}
static inline ssize_t ff_copy_file_range(int from, int to, size_t length) {
    return copy_file_range(from, NULL, to, NULL, length, 0);
}
