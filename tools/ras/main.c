/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_ras: who is where in a running job, who is late, over what they are connected, how much they move. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/ras/ras.h"

#define JOBS_MAX 64

struct wish {
	const char *job;
	int pid, wait_ms;
	double interval; /* between two looks, for rates */
	bool json, links, list, follow;
};

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static long long number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static double real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void print_request(const json_t *req)
{
	printf("  in %s for %.3f s, %lld of %lld rounds, %lld bytes%s%s\n", text(req, "call"),
	       real(req, "since"), number(req, "rounds"), number(req, "of"), number(req, "bytes"),
	       *text(req, "waits") ? "; " : "", text(req, "waits"));
}

static void print_comm(const json_t *c)
{
	const json_t *coll = json_object_get(c, "collective"), *other = json_object_get(c, "other");
	const json_t *late = json_object_get(c, "late");
	size_t i;

	if (*text(c, "error_text"))
		printf("  communicator %lld has failed: %s\n", number(c, "communicator"),
		       text(c, "error_text"));
	if (coll)
		print_request(coll);
	if (other)
		print_request(other);
	if (!coll && !other)
		printf("  communicator %lld: idle after %lld collectives\n", number(c, "communicator"),
		       number(c, "calls"));
	for (i = 0; i < json_array_size(late); i++)
		printf("  late: rank %lld\n", json_integer_value(json_array_get(late, i)));
}

static void print_links(const json_t *rank)
{
	const json_t *links = json_object_get(rank, "links"), *l;
	size_t i;

	for (i = 0; i < json_array_size(links); i++) {
		l = json_array_get(links, i);
		printf("  link to rank %lld: %s, %s\n", number(l, "peer"),
		       *text(l, "transport") ? text(l, "transport") : "no transport yet",
		       text(l, "state"));
	}
}

/* MB/s since the look before. */
static double rate(const json_t *now, const json_t *before, const char *key)
{
	double dt = real(now, "time") - real(before, "time");

	return dt > 0 ? (double)(number(now, key) - number(before, key)) / dt * 1e-6 : 0;
}

static void print_rank(const struct wish *w, int r, const json_t *now, const json_t *before)
{
	const json_t *comms = json_object_get(now, "communicators");
	double calls;
	size_t i;

	printf("rank %d on %s, process %lld, %lld operations", r, text(now, "host"),
	       number(now, "pid"), number(now, "operations"));
	if (before && real(now, "time") > real(before, "time")) {
		calls = (double)(number(now, "operations") - number(before, "operations")) /
			(real(now, "time") - real(before, "time"));
		printf("; per second: %.0f operations, %.1f MB put, %.1f got, %.1f pulled, %.1f reduced",
		       calls, rate(now, before, "put_bytes"), rate(now, before, "got_bytes"),
		       rate(now, before, "pulled_bytes"), rate(now, before, "reduced_bytes"));
	}
	printf("\n");
	for (i = 0; i < json_array_size(comms); i++)
		print_comm(json_array_get(comms, i));
	if (w->links)
		print_links(now);
}

/* Those that others wait for, once each. */
static void print_late(const struct answers *a)
{
	bool *late = calloc((size_t)a->nranks, sizeof(*late));
	size_t i, k;
	int r;

	for (r = 0; late && r < a->nranks; r++) {
		const json_t *comms = json_object_get(a->rank[r], "communicators");

		for (i = 0; i < json_array_size(comms); i++) {
			const json_t *l = json_object_get(json_array_get(comms, i), "late");

			for (k = 0; k < json_array_size(l); k++) {
				long long who = json_integer_value(json_array_get(l, k));

				if (who >= 0 && who < a->nranks)
					late[who] = true;
			}
		}
	}
	for (r = 0; late && r < a->nranks; r++)
		if (late[r])
			printf("late: rank %d\n", r);
	free(late);
}

static void print_all(const struct wish *w, const struct job *job, const struct answers *now,
		      const struct answers *before)
{
	int r;

	printf("job %s: %d ranks\n", job->id, now->nranks);
	for (r = 0; r < now->nranks; r++) {
		if (now->gone[r])
			printf("rank %d: gone\n", r);
		else if (!now->rank[r])
			printf("rank %d: no answer within %d ms\n", r, w->wait_ms);
		else
			print_rank(w, r, now->rank[r], r < before->nranks ? before->rank[r] : NULL);
	}
	print_late(now);
	fflush(stdout);
}

static int look(const struct wish *w, const struct job *job)
{
	struct client c = {.json = w->json};
	struct answers before = {0}, now;
	int err = client_open(&c, job);

	while (!err) {
		err = client_ask(&c, &now, w->wait_ms);
		if (!err && !w->json && (before.nranks || w->interval <= 0))
			print_all(w, job, &now, &before);
		fflush(stdout);
		if (err || w->json || w->interval <= 0 || (before.nranks && !w->follow)) {
			answers_free(&now);
			break;
		}
		answers_free(&before);
		before = now;
		usleep((useconds_t)(w->interval * 1e6));
	}
	answers_free(&before);
	client_close(&c);
	return err;
}

static int choose(const struct wish *w)
{
	struct job job[JOBS_MAX];
	int n = find_jobs(w->job, w->pid, job, JOBS_MAX), i;

	if (n == 1 && !w->list)
		return look(w, &job[0]);
	for (i = 0; i < n && i < JOBS_MAX; i++)
		printf("job %s, rank 0 is process %d\n", job[i].id, job[i].pid);
	if (w->list)
		return 0;
	fprintf(stderr, "tutti_ras: %s; see tutti_ras --help\n",
		n ? "there are several jobs: name one" : "no such job has its rank 0 on this host");
	return 1;
}

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"links", no_argument, NULL, 'l'},
					{"list", no_argument, NULL, 'L'},
					{"pid", required_argument, NULL, 'p'},
					{"interval", required_argument, NULL, 'i'},
					{"follow", no_argument, NULL, 'f'},
					{"wait", required_argument, NULL, 'w'},
					{"help", no_argument, NULL, 'h'},
					{"version", no_argument, NULL, 'V'},
					{NULL, 0, NULL, 0}};

static void usage(void)
{
	printf("usage: tutti_ras [OPTION...] [JOB]\n"
	       "  -l, --links           show the connections of each rank\n"
	       "  -i, --interval=SEC    look twice, so long apart, and show rates (default 0.5; 0: once)\n"
	       "  -f, --follow          go on, every interval\n"
	       "  -w, --wait=MS         wait so long for answers (default 1000)\n"
	       "  -p, --pid=PID         the job whose rank 0 is this process\n"
	       "      --list            show the jobs of this host\n"
	       "      --json            print what ranks answer, a line of JSON each\n"
	       "      --version         show the version\n"
	       "JOB: the id of the job, or its first digits; not needed if there is one only.\n");
}

int main(int argc, char **argv)
{
	struct wish w = {.job = "", .interval = 0.5, .wait_ms = 1000};
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":hli:fw:p:", options, NULL)) != -1)
		switch (opt) {
		case 'j':
			w.json = true;
			break;
		case 'l':
			w.links = true;
			break;
		case 'L':
			w.list = true;
			break;
		case 'f':
			w.follow = true;
			break;
		case 'p':
			w.pid = atoi(optarg);
			break;
		case 'i':
			w.interval = atof(optarg);
			break;
		case 'w':
			w.wait_ms = atoi(optarg);
			break;
		case 'h':
			usage();
			return 0;
		case 'V':
			printf("tutti_ras %s\n", TUTTI_VERSION_STRING);
			return 0;
		default:
			cli_bad_option("tutti_ras", options, opt, argv);
			return 2;
		}
	if (optind < argc)
		w.job = argv[optind];
	if (optind + 1 < argc || w.pid < 0 || w.wait_ms < 1 || w.interval < 0 || w.interval > 86400) {
		fprintf(stderr, "tutti_ras: the arguments make no sense; see tutti_ras --help\n");
		return 2;
	}
	return choose(&w);
}
