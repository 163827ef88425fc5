/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_tune: measures the cost of messages and the time of each algorithm in this job, and writes
 * a tuning table for later jobs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tutti/error.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/tune/tune.h"
#include "tools/values.h"

const char cli_prog[] = "tutti_tune";

int tune_fail(const struct job *job, const char *what, int err)
{
	if (!job->rank)
		cli_fail("%s: %s", what, tt_fail_text(err));
	return -1;
}

static void print_links(const struct job *job)
{
	const struct tt_tune *t = job->tune;
	int where, i;

	if (job->rank)
		return;
	printf("# hosts %s, %d ranks\n# reducing %.2f GB/s, copying %.2f GB/s\n", t->hosts,
	       t->nranks, 1 / t->gamma, 1 / t->copy);
	for (where = 0; where < 2; where++)
		for (i = 0; i < t->nlinks[where]; i++)
			printf("# %s, %s: alpha %.2f us, %.4f GB/s, overhead %.2f us\n",
			       t->links[where][i].name, where ? "between hosts" : "inside a host",
			       t->links[where][i].hop.alpha / 1e3, 1 / t->links[where][i].hop.beta,
			       t->links[where][i].overhead / 1e3);
	fflush(stdout);
}

/* Keep earlier measurements of other transports. */
static void keep_links(struct tt_tune *tune, const struct tt_tune *old)
{
	int where, i, k;

	for (where = 0; where < 2; where++)
		for (i = 0; i < old->nlinks[where]; i++) {
			for (k = 0; k < tune->nlinks[where]; k++)
				if (!strcmp(tune->links[where][k].name, old->links[where][i].name))
					break;
			if (k == tune->nlinks[where] && k < TT_TUNE_LINKS)
				tune->links[where][tune->nlinks[where]++] = old->links[where][i];
		}
}

/* Make the folders that lead to the default table. */
static int make_folders(char *path)
{
	char *slash;
	int err = 0;

	for (slash = strchr(path + 1, '/'); slash && !err; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0777) && errno != EEXIST) {
			err = -errno;
			err = access(path, F_OK) ? tt_fail(err, "cannot make the directory %s: %s",
							   path, strerror(-err))
						 : 0;
		}
		*slash = '/';
	}
	return err;
}

/* Finds the table's file and checks that it can be written, before measuring. */
static int find_place(struct job *job)
{
	char *path = job->path, *slash;
	bool ok;
	int err;

	if (!job->opt.output)
		return 0;
	err = tt_tune_path(job->opt.output, path, sizeof(job->path));
	if (!err && !path[0])
		err = tt_fail(-EINVAL, "no home directory; name a file with -o");
	if (!err && !*job->opt.output)
		err = make_folders(path);
	if (err)
		return err;
	slash = strrchr(path, '/');
	if (slash)
		*slash = 0; /* the table is written beside its place, then renamed */
	ok = !access(!slash ? "." : *path ? path : "/", W_OK | X_OK);
	if (slash)
		*slash = '/';
	return ok ? 0 : tt_fail(-errno, "cannot write %s: %s", path, strerror(errno));
}

static int save(struct job *job)
{
	struct tt_tunes tunes = {0};
	const struct tt_tune *old;
	const char *path = job->path;
	int err;

	if (!job->opt.output) {
		printf("# not saved: use -o FILE or --install\n");
		return 0;
	}
	err = tt_tunes_load(path, &tunes);
	if (err && err != -ENOENT)
		return err; /* not ours: it is not overwritten */
	old = tt_tunes_find(&tunes, job->tune->hosts, job->n);
	if (old && old->nranks == job->n)
		keep_links(job->tune, old);
	if (old && !job->tune->cache)
		job->tune->cache = old->cache;
	err = tt_tunes_put(&tunes, job->tune);
	if (!err) {
		job->tune = NULL;
		err = tt_tunes_save(path, &tunes);
	}
	tt_tunes_free(&tunes);
	if (!err)
		printf("# written to %s\n", path);
	return err;
}

static int begin(struct job *job)
{
	int32_t refused = job->rank ? 0 : find_place(job);
	int err = tutti_bcast(&refused, 1, TUTTI_INT32, 0, job->world);

	if (!err)
		err = refused ? refused : tt_agreed_get(job->ctx, &job->agreed);
	if (err)
		return err;
	job->tune = calloc(1, sizeof(*job->tune));
	if (!job->tune)
		return tt_fail(-ENOMEM, "no memory for a table");
	job->tune->nranks = job->n;
	job->room = job->opt.max_bytes > TUNE_LONG ? job->opt.max_bytes : TUNE_LONG;
	if (!err)
		err = tt_tune_job_hosts(job->ctx, job->tune->hosts, sizeof(job->tune->hosts));
	if (!err)
		err = tutti_alloc(job->ctx, job->room, &job->in);
	if (!err)
		err = tutti_alloc(job->ctx, job->room, &job->out);
	if (!err)
		err = tutti_comm_dup(job->world, &job->comm);
	return err;
}

static int work(struct job *job)
{
	const char *c;
	int err = begin(job);

	for (c = job->tune ? job->tune->hosts : "", job->tune ? job->tune->nhosts = 1 : 0; *c; c++)
		job->tune->nhosts += *c == ',';
	if (!err)
		err = tune_links(job);
	if (!err)
		print_links(job);
	if (!err && !job->opt.links_only)
		err = tune_cache(job);
	if (!err && !job->opt.links_only)
		err = tune_algs(job);
	if (!err && job->opt.verify)
		err = tune_verify(job);
	if (!err && !job->rank)
		err = save(job);
	return err ? tune_fail(job, "not done", err) : 0;
}

int main(int argc, char **argv)
{
	struct job job = {0};
	int err = tune_parse(&job.opt, argc, argv);

	if (err)
		return cli_end_parsing(cli_prog, err);
	setenv("TUTTI_TUNE_FILE", "none", 1); /* measurements must not depend on an older table */
	setenv("TUTTI_LATE_AFTER", "60s",
	       0); /* the others wait while two ranks measure their link */
	err = tutti_init(NULL, &job.ctx);
	if (err)
		return 1;
	job.world = tutti_world(job.ctx);
	job.rank = tutti_comm_rank(job.world);
	job.n = tutti_comm_size(job.world);
	if (job.n < 2)
		err = cli_fail("one rank is not enough to measure messages; run: tutti_run -n 2 "
			       "tutti_tune; see --help");
	else
		err = work(&job);
	free(job.tune);
	if (job.comm)
		tutti_comm_free(job.comm);
	if (job.in)
		tutti_free(job.in);
	if (job.out)
		tutti_free(job.out);
	if (tutti_finalize(job.ctx) && !err)
		err = tune_fail(&job, "finalize", -EIO);
	return cli_end(cli_prog, err);
}
