/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the N-th allocation, registration or new descriptor of the library fail (TUTTI_FAULT).
 * lib/base/local.mk includes this file before every source file, so that no call is missed.
 */
#ifndef TT_INJECT_H
#define TT_INJECT_H

#include <stdbool.h>

enum tt_inject { TT_INJECT_ALLOC, TT_INJECT_REG, TT_INJECT_SOCKET, TT_INJECT_KINDS };

struct tt_env;

/*
 * Starts counting if env.fault selects this rank; -1: the rank is not known yet, faults of all
 * ranks. A second call continues the count. -EINVAL: as tt_faults_parse.
 */
int tt_inject_arm(const struct tt_env *env, int rank);
/* Report the number of calls counted, so that a sweep over all N knows where to end. */
void tt_inject_report(void);

/* Whether this call fails: errno is set then. */
bool tt_inject(enum tt_inject kind);

/* The headers' own declarations become those of inject.c's functions. */
#define malloc tt_malloc
#define calloc tt_calloc
#define realloc tt_realloc
#define reallocarray tt_reallocarray
#define aligned_alloc tt_aligned_alloc
#define strdup tt_strdup
#define socket tt_socket
#define accept4 tt_accept4
#define pipe2 tt_pipe2
#define memfd_create tt_memfd_create
#define epoll_create1 tt_epoll_create1
#define eventfd tt_eventfd
#define timerfd_create tt_timerfd_create

#endif
