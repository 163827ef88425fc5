/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of tutti_blame, which keeps dumps of flight recorders (tutti_dump(5)) as JSON.
 *
 *	main.c	the command line and the output
 *	read.c	the files
 *	judge.c	finds the rank at fault
 */
#ifndef TUTTI_BLAME_H
#define TUTTI_BLAME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dump {
	const char *path;
	int rank;
	json_t *head;
	json_t **comm, **op; /* in the file's order: operations by number */
	size_t ncomms, nops;
};

struct dumps {
	int nranks;
	struct dump **of; /* by rank; NULL: none was given */
};

/* A member of a line, or a value that says that it is not there. */
int64_t num(const json_t *line, const char *key, int64_t none);
const char *str(const json_t *line, const char *key); /* "" */
double real(const json_t *line, const char *key);     /* 0 */

/* read.c: 0, or 1 and said so. */
int read_dump(struct dumps *dumps, const char *path);
void free_dumps(struct dumps *dumps);
/* The line of a communicator in a dump, NULL: it has none. */
const json_t *comm_of(const struct dump *d, const char *uid);
/*
 * The oldest collective that has not ended well, or else the oldest message under way, or else the
 * last collective, or else the last operation; NULL: none.
 */
const json_t *current(const struct dump *d);
bool pending(const json_t *op);
/* A message under way, or one that has failed and that no other operation has followed. */
bool in_message(const struct dump *d, const json_t *op);

struct verdict {
	int rank;	/* -1: none */
	char call[256]; /* the operation that it is about */
	char field[32]; /* what disagrees, "" */
	char why[1024];
};

/* judge.c */
void judge(const struct dumps *dumps, struct verdict *v);
/* "allreduce #5 of communicator 1 (count 10, float32, sum)" */
const char *op_text(const json_t *op, char *buf, size_t size);
/* "0 of 4 rounds, 80 bytes"; a message has no rounds */
const char *progress_text(const json_t *op, char *buf, size_t size);

#endif
