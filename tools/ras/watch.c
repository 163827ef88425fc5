/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_ras --watch: looks at a job again and again. */
#include <stdlib.h>
#include <unistd.h>

#include "tools/ras/watch.h"
#include "tools/values.h"

#define ENDING_MS 200 /* between the end of the connections of a rank and that of its door */

struct watch {
	struct view view;
	struct client client;
	struct door asked; /* the rank at the other end of client */
	bool connected;
};

static void disconnect(struct watch *watch)
{
	if (watch->connected)
		client_close(&watch->client);
	watch->connected = false;
}

static bool known_stopped(const struct watch *watch, const struct door *door)
{
	return door->rank < watch->view.nranks && watch->view.seen[door->rank].stopped;
}

/* Any rank of this host that answers. 0, or 1. */
static int connect_to(struct watch *watch, const struct door *door, int n)
{
	int i;

	for (i = 0; i < n && !watch->connected && !ras_stop; i++) {
		if (known_stopped(watch, &door[i]))
			continue;
		watch->client = (struct client){0};
		watch->asked = door[i];
		watch->connected = !client_open(&watch->client, &watch->asked);
		if (!watch->connected)
			client_close(&watch->client);
	}
	return !watch->connected;
}

/* Asks all ranks, through one of this host; what none says, a->nranks is 0. */
static void ask(struct watch *watch, struct answers *a, const struct door *door, int n)
{
	*a = (struct answers){0};
	if (!watch->connected && connect_to(watch, door, n))
		return;
	if (client_ask(&watch->client, a, watch->view.w->wait_ms))
		disconnect(watch); /* another rank is asked at the next look */
}

/* One look. 1: the job has ended; negative: an error was printed. */
static int look(struct watch *watch, const struct wish *job)
{
	struct door *door;
	struct answers a;
	int n = find_doors(job, &door), err;

	if (n <= 0) {
		free(door);
		return n ? n : 1;
	}
	ask(watch, &a, door, n);
	err = view_take(&watch->view, &a, door, n);
	answers_free(&a);
	free(door);
	return err ? cli_fail("out of memory") : 0;
}

/* A rank's door may be gone while another rank is still there. */
static int look_twice(struct watch *watch, const struct wish *job)
{
	int err = look(watch, job);

	if (err != 1)
		return err;
	usleep(ENDING_MS * 1000);
	return look(watch, job);
}

static int go_on(struct watch *watch, const struct wish *job, struct terminal *t)
{
	bool end = false;
	double until;
	int err = 0;

	while (!err && !end && !ras_stop) {
		until = seconds_now() + job->interval;
		err = look_twice(watch, job);
		terminal_size(t);
		do {
			if (!err && !ras_stop && watch->view.nranks)
				table_show(&watch->view, t);
			end = err || ferror(stdout) || terminal_wait(t, until);
		} while (!end && t->screen && seconds_now() < until && (terminal_size(t), 1));
	}
	return err;
}

int watch_job(const struct wish *w, const struct door *door)
{
	struct watch watch = {.view.w = w};
	struct wish job = *w;
	struct terminal t;
	int err;

	snprintf(watch.view.job, sizeof(watch.view.job), "%s", door->job);
	job.job = watch.view.job;
	job.pid = 0;
	terminal_begin(&t);
	err = go_on(&watch, &job, &t);
	terminal_end(&t);
	if (err > 0)
		printf("job %s has ended\n", watch.view.job);
	disconnect(&watch);
	view_free(&watch.view);
	return err < 0;
}
