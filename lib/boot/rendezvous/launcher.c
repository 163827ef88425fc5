/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launchers that number their processes: which launcher started this process, its rank, and its
 * job.
 *
 * Only variables of a step count. An allocation's variables (SLURM_NTASKS) are also set in the
 * script of a batch job, which is one process.
 *
 * The job's name is part of its file name in TUTTI_BOOT_DIR, so that jobs in one directory do not
 * mix: a word for the launcher, then what distinguishes that launcher's jobs.
 */
#include "lib/boot/rendezvous/launcher.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/number.h"
#include "lib/base/proc.h"
#include "lib/boot/rendezvous/launcher_kvs.h"

#define RANKS_MAX (1 << 24)
#define ANCESTORS_MAX 64
#define IDS_MAX 50 /* bytes of a readable name; TUTTI_JOB_ID may follow it */

/* Innermost first: an mpirun in a step of Slurm, torchrun in either. */
static const struct tt_launcher {
	const char *word;
	const char *rank, *nranks, *local_rank;
	const char *nlocal, *nnodes; /* processes on this host, hosts */
	const char *job[4];	     /* the first is required */
	const struct tt_kvs *kvs;
	const char *kvs_rank, *kvs_place; /* variables of that space: rank, how it is reached */
} launchers[] = {
	{"torch",
	 "RANK",
	 "WORLD_SIZE",
	 "LOCAL_RANK",
	 "LOCAL_WORLD_SIZE",
	 NULL,
	 {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
	 NULL,
	 NULL,
	 NULL},
	{"ompi",
	 "OMPI_COMM_WORLD_RANK",
	 "OMPI_COMM_WORLD_SIZE",
	 "OMPI_COMM_WORLD_LOCAL_RANK",
	 "OMPI_COMM_WORLD_LOCAL_SIZE",
	 NULL,
	 {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"},
	 &tt_kvs_pmix,
	 "PMIX_RANK",
	 "PMIX_NAMESPACE"},
	{"pmi",
	 "PMI_RANK",
	 "PMI_SIZE",
	 "MPI_LOCALRANKID",
	 "MPI_LOCALNRANKS",
	 NULL,
	 {"PMI_JOBID"},
	 &tt_kvs_pmi1,
	 "PMI_RANK",
	 "PMI_FD"},
	{"mv2",
	 "MV2_COMM_WORLD_RANK",
	 "MV2_COMM_WORLD_SIZE",
	 "MV2_COMM_WORLD_LOCAL_RANK",
	 "MV2_COMM_WORLD_LOCAL_SIZE",
	 NULL,
	 {NULL},
	 NULL,
	 NULL,
	 NULL},
	{"flux",
	 "FLUX_TASK_RANK",
	 "FLUX_JOB_SIZE",
	 "FLUX_TASK_LOCAL_ID",
	 NULL,
	 "FLUX_JOB_NNODES",
	 {"FLUX_JOB_ID"},
	 NULL,
	 NULL,
	 NULL},
	{"slurm",
	 "SLURM_PROCID",
	 "SLURM_STEP_NUM_TASKS",
	 "SLURM_LOCALID",
	 NULL,
	 "SLURM_STEP_NUM_NODES",
	 {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT"},
	 &tt_kvs_pmix,
	 "PMIX_RANK",
	 "PMIX_NAMESPACE"},
};

#define NLAUNCHERS (sizeof(launchers) / sizeof(launchers[0]))

const char *tt_launcher_text(const char *name)
{
	const char *s = name ? getenv(name) : NULL;

	return s && *s ? s : NULL;
}

int tt_launcher_number(const char *name, long lo, long hi, int *value)
{
	const char *s = tt_launcher_text(name), *end;
	int64_t v;

	if (!s)
		return tt_fail(-EINVAL, "%s is not set, although other variables of torchrun are",
			       name);
	end = tt_number_whole(s, &v);
	if (!end || *end || v < lo || v > hi)
		return tt_fail(-EINVAL, "%s=%s: must be a number from %ld to %ld", name, s, lo, hi);
	*value = (int)v;
	return 0;
}

/* Either variable of torchrun counts: one without the other is an error, not a single process. */
const struct tt_launcher *tt_launcher_find(void)
{
	size_t i;

	if (tt_launcher_text("RANK") || tt_launcher_text("WORLD_SIZE"))
		return &launchers[0];
	for (i = 1; i < NLAUNCHERS; i++)
		if (tt_launcher_text(launchers[i].rank) && tt_launcher_text(launchers[i].nranks))
			return &launchers[i];
	return NULL;
}

int tt_launcher_check_alone(void)
{
	if (!tt_launcher_text("PMIX_RANK"))
		return 0;
	return tt_fail(
		-EINVAL,
		"PMIX_RANK=%s says that a launcher started this process, but not how many "
		"there are; set TUTTI_RANK and TUTTI_NRANKS in each (0 and 1 for a job of one "
		"process), and TUTTI_BOOT_DIR",
		tt_launcher_text("PMIX_RANK"));
}

static bool is_number(const char *name, int number)
{
	const char *s = tt_launcher_text(name), *end;
	int64_t value = 0;

	end = s ? tt_number_whole(s, &value) : NULL;
	return end && !*end && value == number;
}

/*
 * Hydra's mpiexec sets no id. Its proxy, an ancestor of the ranks, has mpiexec's port as an
 * argument.
 */
static bool hydra_port(char *text, size_t size)
{
	pid_t pid = getppid();
	int i;

	for (i = 0; i < ANCESTORS_MAX && pid > 1; i++, pid = tt_proc_parent(pid))
		if (tt_proc_option(pid, "--control-port", text, size))
			return true;
	return false;
}

/* The launcher's id of the job; false: it has none. */
static bool job_ids(const struct tt_launcher *l, char *text, size_t size)
{
	const char *id;
	size_t i, len = 0;

	if (!l->job[0] || !tt_launcher_text(l->job[0]))
		return !strcmp(l->word, "torch") ||
		       (!strcmp(l->word, "pmi") && hydra_port(text, size));
	for (i = 0; i < sizeof(l->job) / sizeof(l->job[0]); i++) {
		id = tt_launcher_text(l->job[i]);
		if (id && len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "." : "", id);
	}
	return true;
}

/* As text if that is a valid file name, else as a hash. */
static void name_job(const char *word, const char *ids, char *name, size_t size)
{
	size_t len = strlen(ids);
	static const char plain[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._@-";
	unsigned char hash[12];
	char hex[2 * sizeof(hash) + 1];

	if (!ids[strspn(ids, plain)] && len <= IDS_MAX) {
		snprintf(name, size, "%s%s%.*s", word, len ? "-" : "", IDS_MAX, ids);
		return;
	}
	crypto_generichash(hash, sizeof(hash), (const unsigned char *)ids, len, NULL, 0);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	snprintf(name, size, "%s-%s", word, hex);
}

/* A launcher without ids may have been started by one with ids, for the same processes. */
static void find_name(const struct tt_launcher *l, struct tt_boot_params *p)
{
	const struct tt_launcher *other;
	char ids[1024] = "";

	for (other = l; other < launchers + NLAUNCHERS; other++) {
		if (!is_number(other->rank, p->rank) || !is_number(other->nranks, p->nranks) ||
		    !job_ids(other, ids, sizeof(ids)))
			continue;
		name_job(other->word, ids, p->boot_name, sizeof(p->boot_name));
		return;
	}
	p->nameless = true;
	snprintf(p->boot_name, sizeof(p->boot_name), "%s", l->word);
}

/* Another launcher of the same processes may know: srun beside the PMI variables that it sets. */
static bool on_one_host(const struct tt_launcher *l, const struct tt_boot_params *p)
{
	for (; l < launchers + NLAUNCHERS; l++)
		if (is_number(l->rank, p->rank) && is_number(l->nranks, p->nranks) &&
		    (is_number(l->nlocal, p->nranks) || is_number(l->nnodes, 1)))
			return true;
	return false;
}

int tt_launcher_fill(const struct tt_launcher *l, struct tt_boot_params *p)
{
	int err = tt_launcher_number(l->nranks, 1, RANKS_MAX, &p->nranks);

	if (!err)
		err = tt_launcher_number(l->rank, 0, RANKS_MAX, &p->rank);
	if (!err && tt_launcher_text(l->local_rank))
		err = tt_launcher_number(l->local_rank, 0, RANKS_MAX, &p->local_rank);
	if (err)
		return err;
	if (p->rank >= p->nranks)
		return tt_fail(-EINVAL, "%s=%d: must be from 0 to %d, as %s=%d", l->rank, p->rank,
			       p->nranks - 1, l->nranks, p->nranks);
	p->one_host = on_one_host(l, p);
	find_name(l, p);
	if (l->kvs && tt_launcher_text(l->kvs_place) && is_number(l->kvs_rank, p->rank))
		p->kvs = l->kvs;
	snprintf(p->origin, sizeof(p->origin), "%s", l == launchers ? "torchrun" : l->rank);
	return 0;
}
