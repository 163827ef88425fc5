/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ras --watch, from the inside:
 *
 *	watch.c		looks again and again, until the user or the job ends it
 *	state.c		what is known of each rank, from its answers and from /proc
 *	waits.c		who waits for whom
 *	table.c		the lines that are shown
 *	terminal.c	the terminal: its size, keys, colours, and its state before
 */
#ifndef TUTTI_RAS_WATCH_H
#define TUTTI_RAS_WATCH_H

#include "tools/ras/ras.h"

/* The worst first: lines that do not fit are the last ones. */
enum mood { STOPPED, GONE, SILENT, FAILED, LATE, WAITING, RUNNING, UNKNOWN, MOODS };

struct seen {
	json_t *now, *before; /* the last two answers; NULL: none */
	double answered;      /* when now came, seconds; 0: never */
	bool fresh;	      /* in this look */
	bool gone;
	bool stopped; /* a process of this host, by a signal */
	int pid;      /* 0: not known */
	enum mood mood;
};

#define WAIT_FOR 8

/* Ranks in the same call that wait for the same ranks. */
struct wait {
	char call[192], comm[96];
	const json_t *of; /* the communicator's uid */
	double since;	  /* the longest */
	int *rank, nranks;
	int target[WAIT_FOR], ntargets; /* ranks of the world, the first ones; 0: not known */
};

struct view {
	const struct wish *w;
	char job[33];
	int nranks;
	struct seen *seen;
	double looked; /* when, seconds */
	struct wait *wait;
	int nwaits;
};

/* state.c: 0, or -1: out of memory. */
int view_take(struct view *v, struct answers *a, const struct door *door, int ndoors);
void view_free(struct view *v);
const char *view_host(const struct view *v, int rank);
double seconds_now(void);
/* The member of an answer; NULL, "" or 0 if there is none. */
const char *member_text(const json_t *o, const char *key);
double member_real(const json_t *o, const char *key);
/* A second's share of a counter since the answer before; negative: not known. */
double view_rate(const struct seen *s, const char *key);

/* waits.c: fills v->wait, the longest first. 0, or -1: out of memory. */
int waits_find(struct view *v);
void waits_free(struct view *v);
#define WAIT_SHOWN 0.1 /* seconds: shorter waits are part of any call */

/* terminal.c */
struct terminal {
	bool screen, colours, keys; /* standard output is one; may have colours; keys can be read */
	int rows, columns;	    /* 0: unlimited */
};
void terminal_begin(struct terminal *t);
void terminal_size(struct terminal *t);
/* Until a time, or the user ends it: true. */
bool terminal_wait(struct terminal *t, double until);
void terminal_end(struct terminal *t);

/* table.c: one picture. */
void table_show(const struct view *v, const struct terminal *t);

#endif
