/* SPDX-License-Identifier: BSD-3-Clause */
/* Registration of user memory and of message buffers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "lib/mem/mem.h"
#include "transports/ofi/ofi.h"

#define LOCAL_ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE)

/* A fault of this end, whatever the reason: no peer has a part in it. */
static int reg_failed(const struct ofi_tp *tp, const void *addr, size_t len, int rc)
{
	const char *provider = tp->info->fabric_attr->prov_name;
	bool full = rc == -FI_ENOMEM || rc == -FI_EAGAIN;
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	/* Provider verbs reports missing memory like this, too. */
	if (rc == -FI_EFAULT || rc == -FI_EACCES || (full && !tt_mem_is_mapped(addr, len)))
		return tt_fail(-EFAULT, "libfabric provider %s cannot register %zu bytes at %p: %s",
			       provider, len, addr, fi_strerror(full ? FI_EFAULT : -rc));
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if ((full || rc == -FI_EPERM) && limit.rlim_cur != RLIM_INFINITY)
		return tt_mem_fail_memlock(len, "registering memory with libfabric");
	if (full)
		return tt_fail(-ENOMEM,
			       "libfabric provider %s cannot register %zu more bytes: %s; register "
			       "fewer, larger regions",
			       provider, len, fi_strerror(-rc));
	return tt_fail(-ENOMEM,
		       "libfabric provider %s cannot register %zu bytes: %s; choose another one "
		       "with TUTTI_OFI_PROVIDER",
		       provider, len, fi_strerror(-rc));
}

static int reg_raw(struct ofi_tp *tp, void *addr, size_t len, uint64_t access, struct fid_mr **mr)
{
	int rc, tries;

	/* A key of our choice may collide with one the provider uses itself: then take the next. */
	for (tries = 0; tries < 16; tries++) {
		rc = fi_mr_reg(tp->domain, addr, len, access, 0, tp->prov_key ? 0 : tp->next_key++,
			       0, mr, NULL);
		if (rc != -FI_ENOKEY)
			break;
	}
	return rc;
}

/* Memory mapped read-only can still be sent and read from: without the rights to write to it. */
static int reg_read_only(struct ofi_tp *tp, const struct tt_mem *mem, uint64_t access,
			 struct fid_mr **mr)
{
	uint64_t read_only = FI_SEND | (access & FI_REMOTE_READ);
	int rc = reg_raw(tp, mem->addr, mem->len, read_only | FI_WRITE, mr);

	/* Provider verbs asks for local writing where a region is the source of writes. */
	return rc ? reg_raw(tp, mem->addr, mem->len, read_only, mr) : 0;
}

int ofi_reg(struct tt_tp *base, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	uint64_t fi_access = LOCAL_ACCESS;
	struct ofi_tp *tp = ofi_tp(base);
	struct ofi_mr *m;
	int rc;

	if (!mem->addr || !mem->len)
		return tt_fail(-EINVAL, "ofi: cannot register an empty region");
	m = calloc(1, sizeof(*m));
	if (!m)
		return tt_fail(-ENOMEM, "ofi: out of memory for a region");
	if (access & TT_ACCESS_READ)
		fi_access |= FI_REMOTE_READ;
	if (access & TT_ACCESS_WRITE)
		fi_access |= FI_REMOTE_WRITE;
	rc = reg_raw(tp, mem->addr, mem->len, fi_access, &m->fid);
	if (!(access & TT_ACCESS_WRITE) && (rc == -FI_EFAULT || rc == -FI_EACCES))
		rc = reg_read_only(tp, mem, fi_access, &m->fid);
	if (rc) {
		free(m);
		return reg_failed(tp, mem->addr, mem->len, rc);
	}
	m->desc = fi_mr_desc(m->fid);
	m->base.tp = base;
	m->base.rkey.word[0] = fi_mr_key(m->fid);
	/*
	 * Addresses are virtual for our callers; where the provider counts from the region's
	 * start,
	 */
	/* the origin subtracts this. */
	m->base.rkey.word[1] = tp->virt_addr ? 0 : (uintptr_t)mem->addr;
	*mr = &m->base;
	return 0;
}

int ofi_dereg(struct tt_mr *mr)
{
	struct ofi_mr *m = (struct ofi_mr *)mr;
	int rc = fi_close(&m->fid->fid);

	if (rc)
		return tt_fail(rc == -FI_EBUSY ? -EBUSY : -TUTTI_ETRANSPORT,
			       "libfabric cannot deregister a region: %s", fi_strerror(-rc));
	free(m);
	return 0;
}

int ofi_ring_init(struct ofi_tp *tp, struct ofi_ring *ring, struct ofi_ep *ep, int n,
		  enum ofi_kind kind)
{
	int i, rc;

	ring->ops = calloc(n, sizeof(*ring->ops));
	ring->area = aligned_alloc(64, (size_t)n * OFI_BUF);
	if (!ring->ops || !ring->area) {
		ofi_ring_fini(ring);
		return tt_fail(-ENOMEM, "ofi: out of memory for message buffers");
	}
	memset(ring->area, 0, (size_t)n * OFI_BUF);
	if (tp->local_mr) {
		rc = reg_raw(tp, ring->area, (size_t)n * OFI_BUF, LOCAL_ACCESS, &ring->mr);
		if (rc) {
			rc = reg_failed(tp, ring->area, (size_t)n * OFI_BUF, rc);
			ofi_ring_fini(ring);
			return rc;
		}
		ring->desc = fi_mr_desc(ring->mr);
	}
	ring->n = n;
	for (i = n - 1; i >= 0; i--) {
		ring->ops[i] = (struct ofi_op){.ep = ep, .kind = kind, .next = ring->free};
		ring->ops[i].buf = ring->area + (size_t)i * OFI_BUF;
		ring->free = &ring->ops[i];
	}
	return 0;
}

void ofi_ring_fini(struct ofi_ring *ring)
{
	if (ring->mr)
		fi_close(&ring->mr->fid);
	free(ring->ops);
	free(ring->area);
	memset(ring, 0, sizeof(*ring));
}

int ofi_post_recv(struct ofi_tp *tp, struct ofi_op *op)
{
	struct fid_ep *fid = op->ep ? op->ep->fid : tp->rdm;
	void *desc = op->ep ? op->ep->rx.desc : tp->rx.desc;
	ssize_t rc;

	op->busy = true;
	rc = fi_recv(fid, op->buf, OFI_BUF, desc, FI_ADDR_UNSPEC, &op->fi);
	if (rc)
		op->busy = false;
	return (int)rc;
}

int ofi_post_all(struct ofi_tp *tp, struct ofi_ring *ring)
{
	int i, rc;

	for (i = 0; i < ring->n; i++) {
		rc = ofi_post_recv(tp, &ring->ops[i]);
		if (rc)
			return tt_fail(-TUTTI_ETRANSPORT, "libfabric cannot post a receive: %s",
				       fi_strerror(-rc));
	}
	return 0;
}
