/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layouts: messages, puts, gets and all-to-all of elements that do not lie one after the other. No
 * call packs the whole: pieces go through the pool, a few at a time, and long blocks may go
 * directly.
 */
#ifndef TUTTI_LAYOUT_H
#define TUTTI_LAYOUT_H

#include <tutti/p2p.h>
#include <tutti/rma.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_LAYOUT_BYTES 1u /* flags: stride and displs are in bytes, not in elements */

/*
 * Where count blocks of elements are in memory, in the order in which they travel.
 *
 * A vector (displs NULL): block elements each, stride from the begin of a block to that of the
 * next.
 *
 * Indexed: block i begins displs[i] after the buffer's address and has blocks[i] elements, or
 * block if blocks is NULL.
 *
 * stride and displs may be negative. Fields that a layout does not use are 0. Calls copy the
 * struct; blocks and displs belong to the library until the operation is complete, or the
 * persistent request is freed.
 */
struct tutti_layout {
	size_t size; /* sizeof(struct tutti_layout) */
	enum tutti_datatype datatype;
	unsigned flags;
	size_t count;
	size_t block;
	ptrdiff_t stride;
	const size_t *blocks;
	const ptrdiff_t *displs;
};

/**
 * tutti_send_layout - as tutti_send, of the elements that *layout describes in buf. The receiver
 * may use any layout, or none: tutti_recv.
 */
int tutti_send_layout(const void *buf, const struct tutti_layout *layout, int dest, int tag,
		      struct tutti_comm *comm);
int tutti_isend_layout(const void *buf, const struct tutti_layout *layout, int dest, int tag,
		       struct tutti_comm *comm, struct tutti_request **request);
int tutti_send_layout_init(const void *buf, const struct tutti_layout *layout, int dest, int tag,
			   struct tutti_comm *comm, struct tutti_request **request);

/** tutti_ssend_layout - as tutti_ssend, of these elements. */
int tutti_ssend_layout(const void *buf, const struct tutti_layout *layout, int dest, int tag,
		       struct tutti_comm *comm);
int tutti_issend_layout(const void *buf, const struct tutti_layout *layout, int dest, int tag,
			struct tutti_comm *comm, struct tutti_request **request);
int tutti_ssend_layout_init(const void *buf, const struct tutti_layout *layout, int dest, int tag,
			    struct tutti_comm *comm, struct tutti_request **request);

/**
 * tutti_recv_layout - as tutti_recv, into these elements, in order. A message may be shorter. The
 * blocks must not overlap.
 */
int tutti_recv_layout(void *buf, const struct tutti_layout *layout, int source, int tag,
		      struct tutti_comm *comm, struct tutti_status *status);
int tutti_irecv_layout(void *buf, const struct tutti_layout *layout, int source, int tag,
		       struct tutti_comm *comm, struct tutti_status *status,
		       struct tutti_request **request);
int tutti_recv_layout_init(void *buf, const struct tutti_layout *layout, int source, int tag,
			   struct tutti_comm *comm, struct tutti_status *status,
			   struct tutti_request **request);

/** tutti_mrecv_layout - as tutti_mrecv, into these elements. */
int tutti_mrecv_layout(void *buf, const struct tutti_layout *layout, struct tutti_message **message,
		       struct tutti_status *status);
int tutti_imrecv_layout(void *buf, const struct tutti_layout *layout,
			struct tutti_message **message, struct tutti_status *status,
			struct tutti_request **request);

/**
 * tutti_put_layout - as tutti_put, of the elements that *local_layout describes at local, to those
 * that *layout describes from offset on. NULL for one of the two: the elements lie one after the
 * other there. Both describe as many elements, of the same datatype. Blocks must not overlap where
 * they are written. tutti_put_layout_notify: as tutti_put_strided_notify.
 */
int tutti_put_layout(struct tutti_win *win, int rank, const void *local,
		     const struct tutti_layout *local_layout, uint64_t offset,
		     const struct tutti_layout *layout);
int tutti_put_layout_notify(struct tutti_win *win, int rank, const void *local,
			    const struct tutti_layout *local_layout, uint64_t offset,
			    const struct tutti_layout *layout, int id);
/** tutti_get_layout - as get, of such blocks. */
int tutti_get_layout(struct tutti_win *win, int rank, void *local,
		     const struct tutti_layout *local_layout, uint64_t offset,
		     const struct tutti_layout *layout);
int tutti_iput_layout(struct tutti_win *win, int rank, const void *local,
		      const struct tutti_layout *local_layout, uint64_t offset,
		      const struct tutti_layout *layout, struct tutti_request **request);
int tutti_iget_layout(struct tutti_win *win, int rank, void *local,
		      const struct tutti_layout *local_layout, uint64_t offset,
		      const struct tutti_layout *layout, struct tutti_request **request);

/**
 * tutti_alltoallw - as tutti_alltoallv, but each block has a layout of its own. This rank
 * sends *sendlayouts[i], sendcounts[i] times, to rank i: the first one is relative to sdispls[i]
 * bytes after sendbuf, and each further one begins where the bytes that the one before spans end.
 * The receive arrays describe the blocks from rank i likewise: as many elements as rank i sends, of
 * the same datatype. Counts NULL: 1 each; displacements, which may be negative, NULL: 0 each. A
 * layout whose count is 0 may be NULL. Blocks must not overlap where they are written. Not in
 * place. The arrays are copied, but for blocks and displs of the layouts.
 */
int tutti_alltoallw(const void *sendbuf, const size_t *sendcounts, const ptrdiff_t *sdispls,
		    const struct tutti_layout *const *sendlayouts, void *recvbuf,
		    const size_t *recvcounts, const ptrdiff_t *rdispls,
		    const struct tutti_layout *const *recvlayouts, struct tutti_comm *comm);
int tutti_ialltoallw(const void *sendbuf, const size_t *sendcounts, const ptrdiff_t *sdispls,
		     const struct tutti_layout *const *sendlayouts, void *recvbuf,
		     const size_t *recvcounts, const ptrdiff_t *rdispls,
		     const struct tutti_layout *const *recvlayouts, struct tutti_comm *comm,
		     struct tutti_request **request);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
