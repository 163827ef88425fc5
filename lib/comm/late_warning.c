/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warnings about late ranks: which call waits for which rank, and for how long so far. The first
 * one comes with the news that a rank is late (stuck.c), further ones when the wait has lasted
 * twice as long as at the last one. Such a rank may have called meanwhile, and the news of it be on
 * the way.
 */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/observe/dump.h"

/* Since the call began, from the flight recorder; 0: it is not there. */
static uint64_t waited_ns(const struct tutti_comm *comm, uint64_t seq)
{
	const struct tt_flight *f = comm->ctx->flight;
	const struct tt_flight_rec *rec;
	struct tt_dump_clock clock;
	uint64_t now, start;
	int i;

	for (i = 0; f && f->head && i < TT_FLIGHT_RECORDS; i++) {
		rec = &f->rec[i];
		if (rec->comm != comm->uid || rec->seq != seq || rec->state != TT_FLIGHT_RUNNING)
			continue;
		clock = tt_dump_clock(f);
		now = tt_dump_real(&clock, tt_ticks());
		start = tt_dump_real(&clock, rec->start);
		return now > start ? now - start : 0;
	}
	return 0;
}

static void warn_of(struct tutti_comm *comm, const struct tt_fields *fields, int i, uint64_t ns,
		    const char *known)
{
	char call[160], name[TT_COMM_NAME], lasted[48] = "", why[224];
	int rank = comm->late[i];

	if (ns >= TT_SEC / 10) /* other ranks may have waited for longer */
		snprintf(lasted, sizeof(lasted), "; the wait has lasted %.1f s",
			 (double)ns / TT_SEC);
	tt_warn("%s of %s waits for rank %d on host %s%s, which %s%s",
		tt_fields_text(fields, comm->late_seq, call, sizeof(call)),
		tt_comm_name(comm, name, sizeof(name)), rank, tt_boot_host(comm->ctx->boot, rank),
		tt_late_why_text(&comm->late_why[i], why, sizeof(why)), known, lasted);
}

void tt_late_warn(struct tutti_comm *comm, const struct tt_fields *fields, int i)
{
	uint64_t ns = waited_ns(comm, tt_flight_start(comm->late_init, comm->late_seq));

	comm->late_warned = ns;
	warn_of(comm, fields, i, ns, "has not called it yet");
}

void tt_late_remind(struct tutti_comm *comm, uint64_t seq, const struct tt_fields *fields)
{
	uint64_t ns;
	int i;

	if (!comm->nlate || comm->late_seq != seq || comm->late_init != fields->init)
		return;
	ns = waited_ns(comm, tt_flight_start(fields->init, seq));
	if (!ns || !comm->late_warned || ns < 2 * comm->late_warned)
		return;
	comm->late_warned = ns;
	for (i = 0; i < comm->nlate; i++)
		warn_of(comm, fields, i, ns, "had not called it when it was asked");
}
