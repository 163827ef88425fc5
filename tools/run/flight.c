/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes out the flight recorders of dead ranks, which only the launcher can still read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/observe/dump.h"
#include "tools/run/run.h"

/* As the ranks have it: -x before the environment. */
char *flight_prefix(const struct share *share)
{
	const char *found = getenv("TUTTI_DUMP");
	int i;

	for (i = 0; share->env && share->env[i]; i++)
		if (!strncmp(share->env[i], "TUTTI_DUMP=", 11))
			found = share->env[i] + 11;
	return found && *found ? must_strdup(found) : NULL;
}

/* A communicator that has failed because of this rank, and is tolerant if operations go on. */
static bool lost_to(const struct tt_flight *f, uint64_t uid, int culprit)
{
	int i;

	for (i = 0; i < TT_FLIGHT_COMMS; i++)
		if (f->head->comm[i].uid == uid && f->head->comm[i].code)
			return f->head->comm[i].culprit == culprit;
	return false;
}

/*
 * Whether the rank has gone on after the failure of c: it has made a communicator since, or an
 * operation on one that has failed with c, and is tolerant, has begun later and ended well.
 */
static bool went_on(const struct tt_flight *f, const struct tt_flight_comm *c)
{
	int i;

	for (i = 0; i < TT_FLIGHT_COMMS; i++)
		if (f->head->comm[i].uid && f->head->comm[i].made > c->fail_time)
			return true;
	for (i = 0; i < TT_FLIGHT_RECORDS; i++)
		if (f->rec[i].number && f->rec[i].state == TT_FLIGHT_DONE &&
		    f->rec[i].start > c->fail_time && lost_to(f, f->rec[i].comm, c->culprit))
			return true;
	return false;
}

int flight_blames(int fd)
{
	const struct tt_flight_comm *c, *first = NULL;
	struct tt_flight f;
	int i, blames;

	if (fd < 0 || tt_flight_attach(&f, fd))
		return -1;
	for (i = 0; i < TT_FLIGHT_COMMS; i++) {
		c = &f.head->comm[i];
		if (c->code && c->culprit >= 0 && !went_on(&f, c) &&
		    (!first || c->fail_time < first->fail_time))
			first = c;
	}
	blames = first ? first->culprit : (int)f.head->blames - 1;
	tt_flight_close(&f);
	return blames;
}

void flight_ended(const char *prefix, int fd, int status)
{
	struct tt_flight f;
	char why[64];
	int err;

	if (fd < 0)
		return;
	if (!status || !prefix || tt_flight_attach(&f, fd)) {
		close(fd);
		return;
	}
	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "killed by signal %d", WTERMSIG(status));
	else
		snprintf(why, sizeof(why), "ended with status %d", WEXITSTATUS(status));
	if (atomic_load(&f.head->dumped) != atomic_load(&f.head->last) + 1) {
		err = tt_dump_file(prefix, &f, why, false);
		if (err)
			say("cannot write the flight recorder of rank %d to %s.%d: %s",
			    f.head->rank, prefix, f.head->rank, strerror(-err));
	}
	tt_flight_close(&f);
	close(fd);
}
