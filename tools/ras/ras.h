/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ras, from the inside: a client of lib/boot/ras.h.
 *
 *	main.c	the command line, and what is printed
 *	find.c	jobs of this host
 *	ask.c	one question, and the ranks' answers
 */
#ifndef TUTTI_RAS_H
#define TUTTI_RAS_H

#include <jansson.h>
#include <stdbool.h>

#include "lib/boot/link.h"

struct job {
	char name[128]; /* of its socket, without the first byte */
	char id[33];
	int pid; /* of rank 0 */
};

/* find.c: the jobs whose id begins with prefix, or which pid is of; returns how many there are, at most max are written. */
int find_jobs(const char *prefix, int pid, struct job *job, int max);

struct answers {
	int nranks;
	json_t **rank; /* NULL: none */
	bool *gone;
	int told;
};

struct client {
	struct tt_self self;
	struct tt_link *link;
	struct answers *answers; /* being collected */
	uint32_t number;
	bool ready;
	bool json; /* print the lines as they come */
};

/* ask.c: connect and prove who we are. 0, or 1 and said so. */
int client_open(struct client *c, const struct job *job);
/* Ask all ranks; wait for them at most ms. */
int client_ask(struct client *c, struct answers *a, int ms);
void client_close(struct client *c);
void answers_free(struct answers *a);

#endif
