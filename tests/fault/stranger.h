/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs whose ranks are threads of this process, and what strangers do to their sockets. */
#ifndef STRANGER_H
#define STRANGER_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/clock.h"
#include "lib/boot/rendezvous/auth.h"
#include "lib/boot/boot.h"
#include "lib/boot/rendezvous/link.h"

#define ST_RANKS 4

/* One rank, in its own thread from st_start to st_stop. */
struct st_rank {
	struct tt_boot_params params;
	struct tt_boot *boot;
	pthread_t thread;
	int err;
};

struct st_job {
	int n, port;
	struct st_rank rank[ST_RANKS];
};

/* A job of n ranks with a store on loopback, not started yet. */
void st_job_init(struct st_job *job, int n);
void st_start(struct st_job *job, int rank);
/* Wait for the starts of ranks first to last; how many failed. */
int st_started(struct st_job *job, int first, int last);
/* All ranks end; how many could not. */
int st_stop(struct st_job *job);

/* Sockets on loopback whose calls give up after 10 s. */
int st_connect(int port);
int st_listen(int *port);
bool st_read(int fd, void *buf, size_t len);
bool st_write(int fd, const void *buf, size_t len);
/* The other side closes without having sent anything that is not zero. */
bool st_refused(int fd);

/* A proxy between a client and the server at port; keeps the first bytes. */
struct st_relay {
	int port, to, listen_fd;
	atomic_bool stop;
	pthread_t thread;
	size_t len[2];		     /* from the client, from the server */
	unsigned char kept[2][1024]; /* of the first connection */
};
void st_relay_start(struct st_relay *relay, int to);
void st_relay_stop(struct st_relay *relay);

/* Junk of one of many kinds, by a number; the connection stays open if it returns one. */
int st_junk(int port, uint64_t number);

#endif
