/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/mem/mem.h"

static int refused(struct vb_tp *tp, size_t len, int err)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if ((err == ENOMEM || err == EPERM || err == EAGAIN) && limit.rlim_cur != RLIM_INFINITY)
		return tt_mem_fail_memlock(len, "registering memory with an RDMA device");
	if (err == ENOMEM || err == EAGAIN) /* the latter is how a cgroup's limit is told */
		return tt_fail(-ENOMEM,
			       "verbs: %s cannot register %zu more bytes: it has no memory or none of "
			       "its %d memory regions left; register fewer, larger regions",
			       tp->port.name, len, tp->port.dev.max_mr);
	return tt_fail(-err, "verbs: %s cannot register %zu bytes: %s", tp->port.name, len,
		       strerror(err));
}

int vb_reg(struct tt_tp *base, const struct tt_mem *mem, unsigned access, struct tt_mr **mrp)
{
	int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	struct vb_tp *tp = (struct vb_tp *)base;
	struct vb_mr *mr;
	int err;

	if (!mem->len || (uint64_t)(uintptr_t)mem->addr + mem->len < mem->len)
		return tt_fail(-EINVAL, "verbs: a region of %zu bytes cannot be registered", mem->len);
	if (access & TT_ACCESS_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (access & TT_ACCESS_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & TT_ACCESS_WRITE && base->caps & TT_CAP_AMO)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return tt_fail(-ENOMEM, "verbs: out of memory");
	errno = 0;
	mr->ib = ibv_reg_mr(tp->pd, mem->addr, mem->len, flags);
	/* Memory mapped read-only can still be sent and read from. */
	if (!mr->ib && !(access & TT_ACCESS_WRITE) && (errno == EFAULT || errno == EACCES))
		mr->ib = ibv_reg_mr(tp->pd, mem->addr, mem->len, flags & ~IBV_ACCESS_LOCAL_WRITE);
	if (!mr->ib) {
		err = errno ? errno : ENOMEM;
		free(mr);
		return refused(tp, mem->len, err);
	}
	mr->mr.tp = base;
	mr->mr.rkey.word[0] = mr->ib->rkey;
	*mrp = &mr->mr;
	return 0;
}

int vb_dereg(struct tt_mr *base)
{
	struct vb_mr *mr = (struct vb_mr *)base;
	int err = ibv_dereg_mr(mr->ib);

	free(mr);
	return err ? tt_fail(-err, "verbs: deregistering memory: %s", strerror(err)) : 0;
}
