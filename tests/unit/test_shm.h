/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by both files of test_shm: ends of a connection, memory with and without a memfd. */
#ifndef TT_TEST_SHM_H
#define TT_TEST_SHM_H

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/wire/transport.h"
#include "tests/test.h"

extern const struct tt_tp_ops tt_shm_tp;

#define WAIT_NS (20 * TT_SEC)

struct end {
	struct tt_tp *tp;
	struct tt_ep *ep;
	char blob[TT_TP_BLOB_MAX];
	size_t len;
	int up, down, notes, msgs, briefs;
	uint32_t last_note;
	char last_msg[TT_TP_MSG_MAX];
	char last_brief[TT_TP_BRIEF_MAX];
	size_t brief_len;
};

struct memory {
	struct tt_mem mem;
	struct tt_mr *mr;
	char *map;
	size_t maplen;
};

static inline int tp_new(uint64_t cookie, struct tt_tp **tp)
{
	static const struct tt_env env = {.heartbeat_limit.number = 10000};
	static _Thread_local struct tt_tp_params params = {.env = &env};

	params.cookie[0] = cookie;
	params.cookie[1] = (uint64_t)getpid();
	return tt_shm_tp.open(&params, tp);
}

static inline int end_open(struct end *e, struct tt_tp *tp)
{
	memset(e, 0, sizeof(*e));
	e->tp = tp;
	if (tt_shm_tp.ep_open(tp, &e->ep, e->blob, &e->len))
		return -1;
	e->ep->user = e;
	return 0;
}

static inline int end_connect(struct end *e, const struct end *to, bool active)
{
	return tt_shm_tp.ep_connect(e->ep, to->blob, to->len, active);
}

/* Poll once; a note has no endpoint and is counted at `mine`. Returns the number of events. */
static inline int end_poll(struct tt_tp *tp, struct end *mine, int max)
{
	struct tt_event ev[64];
	struct end *e;
	int i, n = tt_shm_tp.poll(tp, ev, max);

	for (i = 0; i < n; i++) {
		e = ev[i].ep ? ev[i].ep->user : mine;
		e->up += ev[i].kind == TT_EV_UP;
		e->down += ev[i].kind == TT_EV_DOWN;
		if (ev[i].kind == TT_EV_NOTE) {
			e->notes++;
			e->last_note = ev[i].note;
		}
		if (ev[i].kind == TT_EV_MSG) {
			e->msgs++;
			memcpy(e->last_msg, ev[i].data, ev[i].len);
		}
		if (ev[i].kind == TT_EV_BRIEF) {
			e->briefs++;
			e->brief_len = ev[i].len;
			memcpy(e->last_brief, ev[i].data, ev[i].len);
		}
	}
	return n;
}

/* PAGE bytes on both sides of the region belong to the mapping too, to see stray writes. */
#define PAGE 4096
static inline int memory_new(struct memory *m, struct tt_tp *tp, size_t len, bool memfd,
			     unsigned access)
{
	memset(m, 0, sizeof(*m));
	m->maplen = len + 2 * PAGE;
	m->mem.memfd = memfd ? memfd_create("shm-test-region", MFD_CLOEXEC) : -1;
	if (memfd && ftruncate(m->mem.memfd, (off_t)m->maplen))
		return -1;
	m->map = mmap(NULL, m->maplen, PROT_READ | PROT_WRITE,
		      memfd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, m->mem.memfd, 0);
	if (m->map == MAP_FAILED)
		return -1;
	m->mem.addr = m->map + PAGE;
	m->mem.len = len;
	m->mem.memfd_off = memfd ? PAGE : 0;
	return tt_shm_tp.reg(tp, &m->mem, access, &m->mr);
}

static inline void memory_free(struct memory *m)
{
	if (m->mr)
		tt_shm_tp.dereg(m->mr);
	munmap(m->map, m->maplen);
	if (m->mem.memfd >= 0)
		close(m->mem.memfd);
}

static inline int put(struct end *e, const void *from, size_t len, uint64_t to,
		      const struct tt_rkey *rkey, int64_t note)
{
	struct tt_rma rma = {
		.local = (void *)(uintptr_t)from, .len = len, .remote = to, .rkey = rkey};

	if (note >= 0) {
		rma.note = (uint32_t)note;
		rma.flags = TT_RMA_NOTE;
	}
	return e->ep->ops->put(e->ep, &rma);
}

static inline int get(struct end *e, void *to, size_t len, uint64_t from,
		      const struct tt_rkey *rkey)
{
	struct tt_rma rma = {.local = to, .len = len, .remote = from, .rkey = rkey};

	return e->ep->ops->get(e->ep, &rma);
}

static inline uint64_t addr_of(const struct memory *m)
{
	return (uint64_t)(uintptr_t)m->mem.addr;
}

/* test_shm_procs.c: several processes, or threads with a transport each */
void test_ping_pong(void);
void test_sleeping(void);
void test_arming(void);
void test_sleeping_threads(void);
void test_user_memory(void);
void test_no_process_vm(void);
void test_killed_peer(void);
void test_killed_while_writing(void);
void test_marked(void);
void test_fences(void);

#endif
