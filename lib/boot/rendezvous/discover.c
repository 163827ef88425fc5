/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds rank, size, rendezvous address and secret.
 *
 * Two questions, each answered by the first source that is set:
 *	which rank?	config.nranks and rank; TUTTI_RANK and TUTTI_NRANKS; a launcher's
 *			variables (launcher.c); none of these: a single process. TUTTI_JOIN
 *			without config.nranks: the gate of a job assigns it (admission.c)
 *	where is rank 0? config.id or config.allgather; TUTTI_STORE; TUTTI_BOOT_DIR; MASTER_ADDR
 *			and MASTER_PORT; the launcher's key-value space (launcher_kvs.c)
 */
#include "lib/boot/rendezvous/discover.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/boot/rendezvous/address.h"
#include "lib/boot/rendezvous/admission.h"
#include "lib/boot/rendezvous/launcher.h"
#include "lib/boot/rendezvous/launcher_kvs.h"

#define RANKS_MAX (1 << 24)

static int who_tutti(const struct tt_env *env, struct tt_boot_params *p)
{
	if (!env->nranks.is_set || env->nranks.number < 1)
		return tt_fail(-EINVAL, "TUTTI_RANK is set but TUTTI_NRANKS is %s",
			       env->nranks.is_set ? "not positive" : "not");
	if (!env->rank.is_set)
		return tt_fail(-EINVAL, "TUTTI_NRANKS is set but TUTTI_RANK is not");
	if (env->rank.number < 0 || env->rank.number >= env->nranks.number)
		return tt_fail(-EINVAL,
			       "TUTTI_RANK=%lld: must be from 0 to %lld, as TUTTI_NRANKS=%lld",
			       (long long)env->rank.number, (long long)env->nranks.number - 1,
			       (long long)env->nranks.number);
	p->rank = (int)env->rank.number;
	p->nranks = (int)env->nranks.number;
	p->local_rank = (int)env->local_rank.number;
	snprintf(p->origin, sizeof(p->origin), "%s",
		 env->secret_fd.is_set ? "tutti_run" : "TUTTI_RANK");
	return 0;
}

int tt_boot_who(const struct tutti_config *config, const struct tt_env *env,
		struct tt_boot_params *p)
{
	const struct tt_launcher *launcher;

	p->local_rank = -1;
	p->nranks = 1;
	if (config && config->nranks) {
		if (config->nranks < 0 || config->nranks > RANKS_MAX)
			return tt_fail(-EINVAL, "config.nranks = %d: must be from 1 to %d",
				       config->nranks, RANKS_MAX);
		if (config->rank < 0 || config->rank >= config->nranks)
			return tt_fail(
				-EINVAL,
				"config.rank = %d: must be from 0 to %d, as config.nranks = %d",
				config->rank, config->nranks - 1, config->nranks);
		p->rank = config->rank;
		p->nranks = config->nranks;
		p->local_rank = (int)env->local_rank.number;
		snprintf(p->origin, sizeof(p->origin), "config");
		return 0;
	}
	if (env->rank.is_set || env->nranks.is_set)
		return who_tutti(env, p);
	launcher = tt_launcher_find();
	return launcher ? tt_launcher_fill(launcher, p) : tt_launcher_check_alone();
}

static int parse_job(const char *text, unsigned char job[16])
{
	size_t len;

	if (strlen(text) != 32 || sodium_hex2bin(job, 16, text, 32, NULL, &len, NULL) || len != 16)
		return tt_fail(-EINVAL, "TUTTI_JOB_ID=%s: must be 32 hexadecimal digits", text);
	return 0;
}

/* Rank 0 makes an id, all ranks gather, rank 0's is used. */
static int where_allgather(const struct tutti_config *config, struct tt_boot_params *p)
{
	struct tutti_unique_id own = {{0}}, *all;
	int err = p->rank == 0 ? tt_unique_id_make(p->iface, &own) : 0, failed;

	/* A failed rank 0 also takes part, as the other ranks would wait for it. */
	all = calloc((size_t)p->nranks, sizeof(*all));
	if (!all)
		return tt_fail(-ENOMEM, "no memory to gather %d ids", p->nranks);
	failed = config->allgather(&own, all, sizeof(own), config->allgather_arg);
	if (failed || err) {
		if (!err)
			err = tt_fail(-TUTTI_EBOOT, "config.allgather returned %d", failed);
		tt_unique_id_drop(&own);
	} else {
		err = tt_unique_id_use(p->rank ? &all[0] : &own, p);
	}
	snprintf(p->origin, sizeof(p->origin), "allgather callback");
	sodium_memzero(all, (size_t)p->nranks * sizeof(*all));
	free(all);
	return err;
}

static int where_store(const struct tt_env *env, struct tt_boot_params *p)
{
	int listening = 0, fd, port;
	socklen_t len = sizeof(listening);
	char host[128];

	if (strlen(env->store.text) >= sizeof(p->store) ||
	    tt_addr_split(env->store.text, host, sizeof(host), &port))
		return tt_fail(
			-EINVAL,
			"TUTTI_STORE=%s: must be HOST:PORT, or [HOST]:PORT for an IPv6 address",
			env->store.text);
	snprintf(p->store, sizeof(p->store), "%s", env->store.text);
	if (p->rank || !env->store_fd.is_set || env->store_fd.number < 0)
		return port || p->nranks == 1 ? 0
					      : tt_fail(-EINVAL,
							"TUTTI_STORE=%s: port 0 is allowed only at "
							"rank 0 with TUTTI_STORE_FD",
							env->store.text);
	fd = (int)env->store_fd.number;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) || !listening)
		return tt_fail(-EINVAL, "TUTTI_STORE_FD=%d is not a listening socket", fd);
	p->listen_fd = fd;
	return 0;
}

static int where_master(struct tt_boot_params *p)
{
	const char *addr = tt_launcher_text("MASTER_ADDR"),
		   *agent = tt_launcher_text("TORCHELASTIC_USE_AGENT_STORE");
	struct tt_addr numeric;
	int err, port, n;

	if (!addr)
		return tt_fail(
			-EINVAL,
			"this is rank %d of %d (%s), but nothing says where rank 0 is; start with "
			"srun --mpi=pmi2 or --mpi=pmix if this is Slurm, or set "
			"TUTTI_BOOT_DIR to a directory that all ranks share, TUTTI_STORE, or "
			"MASTER_ADDR and MASTER_PORT, or give config.id (for a job of one "
			"process set TUTTI_RANK=0 and TUTTI_NRANKS=1)",
			p->rank, p->nranks, p->origin);
	err = tt_launcher_number("MASTER_PORT", 1, 65534, &port);
	if (err)
		return err;
	/* Then torchrun's agent itself listens on MASTER_PORT. */
	if (agent && !strcmp(agent, "True"))
		port++;
	n = snprintf(p->store, sizeof(p->store),
		     !tt_addr_numeric(addr, 0, &numeric) && numeric.sa.ss_family == AF_INET6
			     ? "[%s]:%d"
			     : "%s:%d",
		     addr, port);
	if (n >= (int)sizeof(p->store) || strpbrk(addr, " \t/[]"))
		return tt_fail(-EINVAL, "MASTER_ADDR=%s: must be a host name or address", addr);
	return 0;
}

static int use_dir(const struct tt_env *env, struct tt_boot_params *p)
{
	size_t used = strlen(p->boot_name);

	if (strlen(env->boot_dir.text) >= sizeof(p->boot_dir))
		return tt_fail(-EINVAL, "TUTTI_BOOT_DIR is longer than %zu bytes",
			       sizeof(p->boot_dir) - 1);
	snprintf(p->boot_dir, sizeof(p->boot_dir), "%s", env->boot_dir.text);
	if (p->nameless && !env->job_id.is_set)
		return tt_fail(-EINVAL,
			       "this is rank %d of %d (%s), but nothing distinguishes this job "
			       "from other jobs that use TUTTI_BOOT_DIR=%s; set TUTTI_JOB_ID to 32 "
			       "hexadecimal digits that differ for each job",
			       p->rank, p->nranks, p->origin, p->boot_dir);
	if (env->job_id.is_set)
		snprintf(p->boot_name + used, sizeof(p->boot_name) - used, "%s%.32s",
			 used ? "-" : "", env->job_id.text);
	p->boot_secret = !p->have_secret;
	return 0;
}

int tt_boot_gate_params(const struct tt_env *env, struct tt_boot_params *params)
{
	int err;

	if (!env->boot_dir.is_set || !*env->boot_dir.text)
		return tt_fail(
			-EINVAL,
			"TUTTI_BOOT_DIR is not set: a job and processes that join it find each "
			"other in a directory");
	params->gate = true;
	err = tt_secret_load(env, params);
	return err ? err : use_dir(env, params);
}

/* A new process for a running job: the gate assigns its rank and the address. */
static int fill_join(const struct tt_env *env, struct tt_boot_params *p)
{
	int err = 0;

	if (strlen(env->iface.text) >= sizeof(p->iface))
		err = tt_fail(-EINVAL, "TUTTI_IF is longer than %zu bytes", sizeof(p->iface) - 1);
	snprintf(p->iface, sizeof(p->iface), "%.63s", env->iface.text);
	p->local_rank = (int)env->local_rank.number;
	snprintf(p->origin, sizeof(p->origin), "tutti_comm_grow");
	if (!err)
		err = tt_boot_gate_params(env, p);
	return err ? err : tt_gate_enter(p);
}

static int where(const struct tutti_config *config, const struct tt_env *env,
		 struct tt_boot_params *p)
{
	bool by_config = config && config->nranks;
	int err;

	if (by_config && config->id) {
		snprintf(p->origin, sizeof(p->origin), "unique id");
		return tt_unique_id_use(config->id, p);
	}
	if (by_config && config->allgather)
		return where_allgather(config, p);
	if (p->nranks == 1 && !env->store.is_set)
		return 0;
	if (env->store.is_set)
		return where_store(env, p);
	if (!env->boot_dir.is_set)
		return p->kvs && !tt_launcher_text("MASTER_ADDR") ? tt_kvs_meet(p)
								  : where_master(p);
	err = use_dir(env, p);
	snprintf(p->origin, sizeof(p->origin), "directory");
	return err;
}

void tt_boot_params_drop(struct tt_boot_params *params)
{
	if (params->listen_fd >= 0)
		close(params->listen_fd);
	params->listen_fd = -1;
	sodium_memzero(params->secret, sizeof(params->secret));
}

static int fill(const struct tutti_config *config, const struct tt_env *env,
		struct tt_boot_params *p)
{
	static const unsigned char unknown[16];
	int err = tt_boot_who(config, env, p);

	if (!err && strlen(env->iface.text) >= sizeof(p->iface))
		err = tt_fail(-EINVAL, "TUTTI_IF is longer than %zu bytes", sizeof(p->iface) - 1);
	if (!err)
		snprintf(p->iface, sizeof(p->iface), "%s", env->iface.text);
	if (!err && env->job_id.is_set)
		err = parse_job(env->job_id.text, p->job);
	if (!err && p->nranks > 1)
		err = tt_secret_load(env, p);
	if (!err)
		err = where(config, env, p);
	if (err)
		return err;
	if (p->rank == 0 && !memcmp(p->job, unknown, sizeof(unknown)))
		randombytes_buf(p->job, sizeof(p->job));
	if (p->boot_secret && p->rank == 0) {
		randombytes_buf(p->secret, sizeof(p->secret));
		p->have_secret = true;
	}
	return 0;
}

int tt_boot_discover(const struct tutti_config *config, const struct tt_env *env,
		     struct tt_boot_params *params)
{
	struct tt_boot_params p = {
		.listen_fd = -1,
		.origin = "single process",
		.insecure = env->insecure.number,
		.init_timeout = env->init_timeout.number,
		.heartbeat = env->heartbeat.number,
		.heartbeat_limit = env->heartbeat_limit.number,
	};
	int err;

	if (sodium_init() < 0)
		return tt_fail(-EIO, "libsodium could not be initialized");
	err = env->join.number && !(config && config->nranks) ? fill_join(env, &p)
							      : fill(config, env, &p);
	if (err) {
		tt_boot_params_drop(&p);
		return err;
	}
	*params = p;
	sodium_memzero(&p, sizeof(p));
	return 0;
}
