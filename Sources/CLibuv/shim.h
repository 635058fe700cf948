#pragma once
#include <uv.h>
#include <pthread.h>

/* glibc declares it only for _GNU_SOURCE. Names are at most 15 characters. */
extern int pthread_setname_np(pthread_t thread, const char *name);
static inline void ff_name_thread(pthread_t thread, const char *name) { pthread_setname_np(thread, name); }
