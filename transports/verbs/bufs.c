/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered buffers of a rail: for receives, and for data too long to be sent inline. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define SLAB_BUFS 256 /* taken at once when there is none left */

struct vb_slab {
	struct vb_slab *next;
	struct ibv_mr *mr;
	struct vb_buf buf[];
};

int vb_slab_new(struct vb_rail *rail, unsigned n)
{
	size_t size = sizeof(struct vb_slab) + n * sizeof(struct vb_buf);
	struct vb_slab *slab;
	unsigned i;

	size = (size + PAGE - 1) / PAGE * PAGE; /* whole pages: a fork leaves them to the parent */
	slab = aligned_alloc(PAGE, size);
	if (!slab)
		return ENOMEM;
	memset(slab, 0, size);
	errno = 0;
	slab->mr = ibv_reg_mr(rail->pd, slab, size, IBV_ACCESS_LOCAL_WRITE);
	if (!slab->mr) {
		free(slab);
		return errno ? errno : ENOMEM;
	}
	for (i = n; i-- > 0;) {
		slab->buf[i].rail = rail;
		slab->buf[i].lkey = slab->mr->lkey;
		vb_buf_put(&slab->buf[i]);
	}
	slab->next = rail->slabs;
	rail->slabs = slab;
	return 0;
}

struct vb_buf *vb_buf_get(struct vb_rail *rail)
{
	struct vb_buf *buf;

	if (!rail->free && vb_slab_new(rail, SLAB_BUFS))
		return NULL;
	buf = rail->free;
	rail->free = buf->next;
	return buf;
}

void vb_slabs_free(struct vb_rail *rail)
{
	struct vb_slab *slab;

	while ((slab = rail->slabs)) {
		rail->slabs = slab->next;
		ibv_dereg_mr(slab->mr);
		free(slab);
	}
	rail->free = NULL;
}
