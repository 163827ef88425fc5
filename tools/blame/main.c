/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_blame: merges the dumps of a job's flight recorders and names the rank at fault. */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#include "tools/blame/blame.h"
#include "tools/cli.h"

static void print_rank(const struct dumps *all, int i)
{
	const struct dump *d = all->of[i];
	const json_t *op = d ? current(d) : NULL;
	char text[256], done[64];

	if (!d) {
		printf("rank %d: no dump\n", i);
		return;
	}
	printf("rank %d on %s (%s): ", i, str(d->head, "host"), str(d->head, "reason"));
	if (!op)
		printf("has called nothing\n");
	else
		printf("%s: %s, %s\n", op_text(op, text, sizeof(text)), str(op, "state"),
		       progress_text(op, done, sizeof(done)));
}

/* The host of a rank without a dump, from another rank's error: "rank 3 on host H is gone". */
static const char *host_of(const struct dumps *all, int rank, char *buf, size_t size)
{
	char start[48];
	size_t k, n;
	int i;

	if (all->of[rank])
		return str(all->of[rank]->head, "host");
	snprintf(start, sizeof(start), "rank %d on host ", rank);
	for (i = 0; i < all->nranks; i++)
		for (k = 0; all->of[i] && k < all->of[i]->ncomms; k++) {
			const char *at = strstr(str(all->of[i]->comm[k], "error_text"), start);

			if (!at)
				continue;
			at += strlen(start);
			n = strcspn(at, " :,;");
			snprintf(buf, size, "%.*s", (int)n, at);
			return buf;
		}
	return "an unknown host";
}

static int report(const struct dumps *all)
{
	struct verdict v;
	char host[64];
	int i;

	judge(all, &v);
	if (v.rank < 0) {
		printf("culprit: none\n");
	} else {
		printf("culprit: rank %d on %s\n", v.rank,
		       host_of(all, v.rank, host, sizeof(host)));
		if (*v.call)
			printf("call: %s\n", v.call);
		if (*v.field)
			printf("field: %s\n", v.field);
	}
	printf("why: %s\n\n", v.why);
	for (i = 0; i < all->nranks; i++)
		print_rank(all, i);
	return v.rank < 0;
}

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};

static const char usage[] = "usage: tutti_blame FILE...\n"
			    "  --version  show the version\n"
			    "FILE: what the ranks of a job wrote under TUTTI_DUMP.\n";

int main(int argc, char **argv)
{
	static const struct cli cli = {"tutti_blame", usage, ":h", options, NULL, NULL};
	struct dumps all = {0};
	int i, status = cli_options(&cli, argc, argv, NULL);

	if (status)
		return status < 0 || cli_flush(cli.prog) ? 2 : 0;
	if (optind == argc) {
		fprintf(stderr, "tutti_blame: no file was given; see tutti_blame --help\n");
		return 2;
	}
	for (i = optind; i < argc && !status; i++)
		status = read_dump(&all, argv[i]) ? 2 : 0;
	if (!status)
		status = report(&all);
	free_dumps(&all);
	return cli_flush(cli.prog) ? 2 : status;
}
