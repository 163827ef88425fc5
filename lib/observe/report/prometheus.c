/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes counters to a text file for Prometheus' node exporter (TUTTI_PROMETHEUS), periodically
 * from a thread of its own, and at the end. The file is renamed into place, so readers see whole
 * files only.
 */
#include "lib/observe/report/prometheus.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"

struct tt_prom {
	struct tutti_context *ctx;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool stop, warned;
};

struct metric {
	const char *name, *type, *help;
	uint64_t value;
};

/* Communicators that have failed, requests under way, ranks waited for. */
static void count_state(struct tutti_context *ctx, uint64_t *failed, uint64_t *late)
{
	struct tt_list *l, *tmp;

	*failed = *late = 0;
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		*failed += atomic_load(&comm->failed) != 0;
		if (tt_comm_waits_late(comm))
			*late += (uint64_t)comm->nlate;
	}
}

static void write_metrics(struct tutti_context *ctx, FILE *f)
{
	const struct tt_flight_head *head = ctx->flight->head;
	struct tutti_stats s = {.size = sizeof(s)};
	uint64_t failed, late, running;
	size_t i;

	tutti_stats_get(ctx, &s);
	tt_wire_lock(ctx->wire);
	running = (uint64_t)ctx->running;
	count_state(ctx, &failed, &late);
	tt_wire_unlock(ctx->wire);
	const struct metric m[] = {
		{"operations_total", "counter", "Operations started", atomic_load(&head->last)},
		{"put_bytes_total", "counter", "Bytes written to peers", s.put_bytes},
		{"got_bytes_total", "counter", "Bytes read from peers", s.got_bytes},
		{"pulled_bytes_total", "counter", "Bytes read out of mapped peer memory",
		 s.pulled_bytes},
		{"reduced_bytes_total", "counter", "Result bytes of reductions", s.reduced_bytes},
		{"copied_bytes_total", "counter", "Bytes copied by the CPU", s.copied_bytes},
		{"eager_messages_total", "counter", "Messages sent through slots",
		 s.eager_messages},
		{"put_messages_total", "counter", "Messages put into the receiver's buffer",
		 s.put_messages},
		{"control_messages_total", "counter", "Offers, credits and flow control sent",
		 s.control_messages},
		{"parked_messages_total", "counter", "Messages that came early", s.parked_messages},
		{"connections_total", "counter", "Endpoints connected", s.connections},
		{"registrations_total", "counter", "Memory regions registered", s.registrations},
		{"allocations_total", "counter", "Allocations made by communication calls",
		 s.allocations},
		{"sleeps_total", "counter", "Times that a waiting thread slept", s.sleeps},
		{"late_sleeps_total", "counter", "Sleeps while an operation could go on",
		 s.late_sleeps},
		{"pieces_total", "counter", "Pieces of long messages, puts and gets", s.pieces},
		{"window_most", "gauge", "Most bytes of pieces under way to a peer", s.window_most},
		{"cache_hits_total", "counter", "Buffers found in the registration cache",
		 s.cache_hits},
		{"cache_misses_total", "counter", "Buffers not found there", s.cache_misses},
		{"cache_evictions_total", "counter", "Regions that left it to make room",
		 s.cache_evictions},
		{"cache_stale_total", "counter", "Regions that left it as their memory had changed",
		 s.cache_stale},
		{"cache_bytes", "gauge", "Bytes in it", s.cache_bytes},
		{"requests_running", "gauge", "Requests under way", running},
		{"communicators_failed", "gauge", "Communicators that have failed", failed},
		{"ranks_late", "gauge", "Ranks that this one waits for", late},
	};
	for (i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		fprintf(f,
			"# HELP tutti_%s %s.\n# TYPE tutti_%s %s\ntutti_%s{rank=\"%d\",job=\"%s\"} "
			"%llu\n",
			m[i].name, m[i].help, m[i].name, m[i].type, m[i].name, head->rank,
			head->job, (unsigned long long)m[i].value);
}

static void write_file(struct tt_prom *p)
{
	struct tutti_context *ctx = p->ctx;
	char path[PATH_MAX], tmp[PATH_MAX + 8];
	FILE *f;
	bool bad;

	snprintf(path, sizeof(path), "%s.%d.prom", ctx->env.prometheus.text, ctx->boot_params.rank);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	f = fopen(tmp, "we");
	if (f)
		write_metrics(ctx, f);
	bad = !f || ferror(f);
	bad |= f && fclose(f);
	bad = bad || rename(tmp, path);
	if (bad && !p->warned) {
		tt_warn("TUTTI_PROMETHEUS: cannot write %s: %s", path, strerror(errno));
		p->warned = true;
	}
	if (bad && f)
		unlink(tmp);
}

static void *run(void *arg)
{
	struct tt_prom *p = arg;
	int64_t period = p->ctx->env.prometheus_period.number;
	struct timespec until;
	bool stop;

	do {
		write_file(p);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += period / 1000;
		until.tv_nsec += period % 1000 * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&p->lock);
		while (!p->stop && !pthread_cond_timedwait(&p->cond, &p->lock, &until))
			;
		stop = p->stop;
		pthread_mutex_unlock(&p->lock);
	} while (!stop);
	write_file(p);
	return NULL;
}

int tt_prom_start(struct tutti_context *ctx)
{
	pthread_condattr_t attr;
	struct tt_prom *p;
	int err;

	if (!*ctx->env.prometheus.text)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return tt_fail(-ENOMEM, "no memory for TUTTI_PROMETHEUS");
	p->ctx = ctx;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr,
				  CLOCK_MONOTONIC); /* or a clock set back would end the writing */
	pthread_cond_init(&p->cond, &attr);
	pthread_condattr_destroy(&attr);
	err = tt_spawn(&p->thread, run, p, "the thread of TUTTI_PROMETHEUS");
	if (err) {
		free(p);
		return err;
	}
	ctx->prom = p;
	return 0;
}

void tt_prom_stop(struct tutti_context *ctx)
{
	struct tt_prom *p = ctx->prom;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->cond);
	ctx->prom = NULL;
	free(p);
}
