/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_ras: shows the ranks of a running job: their hosts, which are late, their connections and
 * traffic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/ras/ras.h"
#include "tools/values.h"

#define ENDING_MS 200 /* after a connection broke */

const char cli_prog[] = "tutti_ras";

static int look(const struct wish *w, struct client *c)
{
	struct answers before = {0}, now;
	int err = 0;

	while (!err) {
		err = client_ask(c, &now, w->wait_ms);
		if (!err && !w->json && (before.nranks || w->interval <= 0))
			print_answers(w, c->door, &now, &before);
		fflush(stdout);
		if (err || ferror(stdout) || w->json || w->interval <= 0 ||
		    (before.nranks && !w->follow)) {
			answers_free(&now);
			break;
		}
		answers_free(&before);
		before = now;
		usleep((useconds_t)(w->interval * 1e6));
	}
	answers_free(&before);
	return err;
}

/*
 * A rank that ends closes its sockets one after another, so its connection may break before its
 * door is gone.
 */
static bool ended(const struct door *door)
{
	int i;

	for (i = 0; i < ENDING_MS && door_is_open(door); i += ENDING_MS / 10)
		usleep(ENDING_MS * 100);
	return i < ENDING_MS;
}

/*
 * Any rank will do: one that is stopped, or ends just now, is passed over. 1: complained; -1: all
 * have ended.
 */
static int look_at(const struct wish *w, const struct door *door, int n)
{
	struct client c;
	bool open = false, here = false;
	int i, err = 1;

	for (i = 0; i < n && !open; i++) {
		c = (struct client){.json = w->json};
		open = !client_open(&c, &door[i]);
		if (open)
			err = look(w, &c);
		if (!err || (ended(&door[i]) && !open)) {
			client_close(&c);
			continue;
		}
		here = true;
		if (door_is_open(&door[i]))
			cli_fail("%s", c.why);
		else
			cli_fail("job %s has ended", door[i].job);
		client_close(&c);
	}
	return err && !here ? -1 : err;
}

/* How many of the doors are of the first one's job. */
static int of_one_job(const struct door *door, int n)
{
	int i;

	for (i = 0; i < n && !strcmp(door[i].job, door[0].job); i++)
		;
	return i;
}

static int none_here(void)
{
	cli_fail("no such job has a rank on this host; see tutti_ras --help");
	return 1;
}

static int choose(const struct wish *w)
{
	struct door *door;
	int n = find_doors(w, &door), i, k, status = 1;

	if (n > 0 && of_one_job(door, n) == n && !w->list) {
		status = w->watch ? watch_job(w, door) : look_at(w, door, n);
		free(door);
		return status >= 0 ? status : none_here();
	}
	for (i = 0; i < n; i += k) {
		k = of_one_job(door + i, n - i);
		printf("job %s: rank %d is process %d of this host", door[i].job, door[i].rank,
		       door[i].pid);
		printf(k > 1 ? ", and %d more ranks are here\n" : "\n", k - 1);
	}
	free(door);
	if (n >= 0 && w->list)
		return 0;
	if (n > 0)
		cli_fail("there are several jobs: name one; see tutti_ras --help");
	return n ? 1 : none_here();
}

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"links", no_argument, NULL, 'l'},
					{"list", no_argument, NULL, 'L'},
					{"pid", required_argument, NULL, 'p'},
					{"interval", required_argument, NULL, 'i'},
					{"follow", no_argument, NULL, 'f'},
					{"wait", required_argument, NULL, 'w'},
					{"help", no_argument, NULL, 'h'},
					{"watch", optional_argument, NULL, 'W'},
					{"version", no_argument, NULL, 'V'},
					{NULL, 0, NULL, 0}};

static const char usage[] =
	"usage: tutti_ras [OPTION...] [JOB]\n"
	"  -l, --links           show the connections of each rank\n"
	"  -i, --interval=SEC    look twice, so long apart, and show rates (default 0.5; 0: once)\n"
	"  -f, --follow          go on, every interval\n"
	"      --watch[=SEC]     show a table that renews itself, every second or SEC; q ends it\n"
	"  -w, --wait=MS         wait so long for answers (default 1000; --watch: half of SEC at "
	"most)\n"
	"  -p, --pid=PID         ask the rank that is this process\n"
	"      --list            show the jobs that have ranks on this host\n"
	"      --json            print what ranks answer, a line of JSON each\n"
	"      --version         show the version\n"
	"JOB: the id of the job, or its first digits; not needed if there is one only.\n";

static int take(void *into, int opt, char *value)
{
	struct wish *w = into;

	switch (opt) {
	case 'j':
		w->json = true;
		return 0;
	case 'l':
		w->links = true;
		return 0;
	case 'L':
		w->list = true;
		return 0;
	case 'f':
		w->follow = true;
		return 0;
	case 'W':
		w->watch = true;
		return value ? cli_number("--watch", value, 0.05, 86400, &w->interval) : 0;
	case 'p':
		return cli_integer("--pid", value, 1, 1 << 22, &w->pid);
	case 'i':
		return cli_number("--interval", value, 0, 86400, &w->interval);
	default:
		return cli_integer("--wait", value, 1, 3600000, &w->wait_ms);
	}
}

/* Defaults and conflicts of several options; 0, or -1, said. */
static int complete(struct wish *w)
{
	if (w->watch && (w->json || w->links || w->list || w->follow))
		return cli_fail("--watch does not go with --json, --links, --list or --follow");
	if (w->interval < 0)
		w->interval = w->watch ? 1 : 0.5;
	if (w->watch && w->interval < 0.05)
		return cli_fail("--watch: the interval is at least 0.05 s");
	if (!w->wait_ms)
		w->wait_ms = w->watch && w->interval < 2 ? (int)(w->interval * 500) : 1000;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct cli cli = {cli_prog, usage, ":hli:fw:p:", options, take, NULL};
	struct wish w = {.job = "", .interval = -1};
	int done = cli_options(&cli, argc, argv, &w);

	if (!done && optind < argc)
		w.job = argv[optind++];
	if (!done && optind < argc)
		done = cli_fail("unexpected argument '%s': give one job", argv[optind]);
	if (!done)
		done = complete(&w);
	if (done)
		return cli_end_parsing(cli_prog, done);
	done = choose(&w);
	return cli_flush(cli_prog) ? 1 : done;
}
