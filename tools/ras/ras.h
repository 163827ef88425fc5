/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ras, from the inside: a client of lib/boot/control/ras.h.
 *
 *	main.c	the command line: which job, how often
 *	find.c	ranks of this host that can be asked
 *	ask.c	one question, and the ranks' answers
 *	print.c	the answers
 *	watch.h	the same, live
 */
#ifndef TUTTI_RAS_H
#define TUTTI_RAS_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>

#include "lib/boot/rendezvous/link.h"

/* A rank that listens. */
struct door {
	char name[128]; /* of its socket, without the first byte */
	char job[33];	/* its id */
	int rank, pid;
	unsigned uid;
};

struct wish {
	const char *job;
	int pid, wait_ms;
	double interval; /* between two looks, for rates */
	bool json, links, list, follow, watch;
};

/*
 * find.c: the ranks of jobs whose id begins with w->job, or w->pid itself, by job and rank;
 * others' only if they are asked for by name. Returns how many there are, or -1, having said why;
 * free *list.
 */
int find_doors(const struct wish *w, struct door **list);
/* Whether the rank still listens. */
bool door_is_open(const struct door *door);

struct answers {
	int nranks;
	json_t **rank; /* NULL: none */
	bool *gone;
	int told;
};

struct client {
	const struct door *door;
	struct tt_self self;
	struct tt_link *link;
	struct answers *answers; /* being collected */
	uint32_t number;
	bool ready;
	bool json;     /* print the lines as they come */
	char why[512]; /* the error */
};

/* ask.c: connect and authenticate. 0, or 1 and c->why; to be closed in either case. */
int client_open(struct client *c, const struct door *door);
/* Ask all ranks; wait for them at most ms. 0, or 1 and c->why. */
int client_ask(struct client *c, struct answers *a, int ms);
void client_close(struct client *c);
void answers_free(struct answers *a);

/* print.c: with rates, if there was an answer before. */
void print_answers(const struct wish *w, const struct door *door, const struct answers *now,
		   const struct answers *before);

/* watch.c: until the user or the job ends it; its status. */
int watch_job(const struct wish *w, const struct door *door);
extern volatile sig_atomic_t ras_stop; /* terminal.c: a signal ends it */

#endif
