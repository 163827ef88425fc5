/* SPDX-License-Identifier: BSD-3-Clause */
/* Registers memory regions. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/mem/mem.h"

static int refused(const struct vb_rail *rail, size_t len, int err)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if ((err == ENOMEM || err == EPERM || err == EAGAIN) && limit.rlim_cur != RLIM_INFINITY)
		return tt_mem_fail_memlock(len, "registering memory with an RDMA device");
	if (err == ENOMEM || err == EAGAIN) /* the latter reports a cgroup's limit */
		return tt_fail(
			-ENOMEM,
			"verbs: %s cannot register %zu more bytes: it has no memory or none of "
			"its %d memory regions left; register fewer, larger regions",
			rail->port.name, len, rail->port.dev.max_mr);
	return tt_fail(-err, "verbs: %s cannot register %zu bytes: %s", rail->port.name, len,
		       strerror(err));
}

/* NULL: errno says why. */
static struct ibv_mr *reg(struct vb_rail *rail, const struct tt_mem *mem, unsigned access,
			  int flags)
{
	struct ibv_mr *ib;

	errno = 0;
	ib = ibv_reg_mr(rail->pd, mem->addr, mem->len, flags);
	/* Memory mapped read-only can still be sent and read from. */
	if (!ib && !(access & TT_ACCESS_WRITE) && (errno == EFAULT || errno == EACCES))
		ib = ibv_reg_mr(rail->pd, mem->addr, mem->len,
				flags & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	/* libibverbs fails like this for missing memory, as it first marks all pages for forks. */
	if (!ib && errno == ENOMEM)
		errno = tt_mem_is_mapped(mem->addr, mem->len) ? ENOMEM : EFAULT;
	return ib;
}

static int dereg(struct vb_mr *mr)
{
	int i, err = 0, e;

	for (i = 0; i < VB_RAILS; i++) {
		e = mr->ib[i] ? ibv_dereg_mr(mr->ib[i]) : 0;
		err = err ? err : e;
	}
	free(mr);
	return err;
}

int vb_reg(struct tt_tp *base, const struct tt_mem *mem, unsigned access, struct tt_mr **mrp)
{
	int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, err, i;
	struct vb_tp *tp = (struct vb_tp *)base;
	struct vb_mr *mr;

	if (!mem->len || (uint64_t)(uintptr_t)mem->addr + mem->len < mem->len)
		return tt_fail(-EINVAL, "verbs: a region of %zu bytes cannot be registered",
			       mem->len);
	if (access & TT_ACCESS_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & TT_ACCESS_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	/* iWARP: the peer writes the data of a READ. Only if no peer has the key. */
	if (tp->rail[0].port.fabric == VB_IWARP && access == TT_ACCESS_LOCAL)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & TT_ACCESS_WRITE && base->caps & TT_CAP_AMO)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	for (i = 0; i < tp->nrails; i++) {
		if (tp->rail[i].dead) /* no endpoint uses it any more */
			continue;
		mr->ib[i] = reg(&tp->rail[i], mem, access, flags);
		if (!mr->ib[i]) {
			err = errno ? errno : ENOMEM;
			dereg(mr);
			return refused(&tp->rail[i], mem->len, err);
		}
		mr->mr.rkey.word[i] = mr->ib[i]->rkey;
	}
	mr->mr.tp = base;
	*mrp = &mr->mr;
	return 0;
}

int vb_dereg(struct tt_mr *base)
{
	int err = dereg((struct vb_mr *)base);

	return err ? tt_fail(-err, "verbs: deregistering memory: %s", strerror(err)) : 0;
}
