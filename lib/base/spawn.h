/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the library's threads. */
#ifndef TT_SPAWN_H
#define TT_SPAWN_H

#include <pthread.h>

/*
 * A thread that takes no signals: the program's handlers never run in it. what: for the error,
 * "the control thread".
 */
int tt_spawn(pthread_t *thread, void *(*run)(void *), void *arg, const char *what);
/*
 * For a thread that runs seldom and briefly beside threads that compute: ask for a short time
 * slice, so that it runs at once when there is something to do. Linux before 6.12 ignores the
 * request.
 */
void tt_spawned_brief(void);

#endif
