/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Over connectionless endpoints, a transfer that a peer has begun may arrive after its connection
 * is closed here. The pool does not reuse that memory until the peer has closed its end too. Rank
 * 0 does not poll while a transfer is under way, closes the connection, frees the memory, and
 * fills all memory that it can allocate instead. Then it polls.
 */
#include "config.h"

#include "tests/mp/job.h"
#include "tests/mp/comm/late.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "lib/comm/comm.h"

#define BYTES ((size_t)256 << 10)
#define BLOCKS 64
#define RDM "TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm TUTTI_OFI_PROVIDER=tcp;ofi_rxm"

struct blocks {
	char *p[BLOCKS];
};

static int take_blocks(struct mp_job *job, struct blocks *b)
{
	int i;

	for (i = 0; i < BLOCKS; i++) {
		MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&b->p[i]));
		memset(b->p[i], 0x55, BYTES);
	}
	return 0;
}

static int free_blocks(struct mp_job *job, struct blocks *b)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		MP_OK(tutti_free(b->p[i]));
	return 0;
}

static bool has(const struct blocks *b, const char *addr)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (addr >= b->p[i] && addr < b->p[i] + BYTES)
			return true;
	return false;
}

static bool untouched(const struct blocks *b)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (b->p[i][0] != 0x55 || memcmp(b->p[i], b->p[i] + 1, BYTES - 1))
			return false;
	return true;
}

static void close_connection(struct mp_job *job, const struct tutti_comm *comm)
{
	tt_wire_lock(job->ctx->wire);
	tt_wire_fence(job->ctx->wire, 1, comm->uid, "the test says so");
	tt_wire_unlock(job->ctx->wire);
}

/* Rank 0 says something to rank 1, and then only looks, until the memory is the pool's again. */
static int given_back(struct mp_job *job, const char *addr, const struct blocks *filled)
{
	struct tutti_comm *next;
	struct blocks b;
	bool back = false;
	int v = 17, i, found;

	MP_OK(tutti_comm_shrink(job->world, &next));
	TT_EXPECT(tutti_comm_size(next) == 2);
	if (job->rank) {
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 4, next, NULL));
		TT_EXPECT(v == 17);
	} else {
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, 4, next));
		for (i = 0; i < 1000 && !back; i++) {
			MP_OK(tutti_iprobe(1, 5, next, &found, NULL));
			TT_EXPECT(!take_blocks(job, &b));
			back = has(&b, addr);
			TT_EXPECT(!free_blocks(job, &b));
			mp_sleep_ms(1);
		}
		TT_EXPECT(untouched(filled));
		TT_EXPECT(back);
	}
	mp_meet(job);
	return 0;
}

/* ---- receives ---- */

static int sender(struct mp_job *job, struct tutti_comm *comm)
{
	struct tutti_request *req;
	int done = 0, err = 0;
	char *buf;

	MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&buf));
	memset(buf, 0xaa, BYTES);
	MP_OK(tutti_isend(buf, BYTES, TUTTI_UINT8, 0, 3, comm, &req));
	while (!done && !err && !mp_await(&job->shared->word[0], 1, 1))
		err = tutti_test(&req, &done);
	if (req)
		err = tutti_wait(&req);
	MP_ERR(err, -TUTTI_EABORTED);
	return given_back(job, NULL, NULL);
}

static int receive_body(struct mp_job *job)
{
	enum mp_kind kind = *(enum mp_kind *)job->arg;
	struct tutti_request *req;
	char *addr = NULL;
	struct blocks b;
	struct mp_buf buf;
	int i, done;

	MP_OK(tutti_barrier(job->world)); /* connected */
	if (job->rank)
		return sender(job, job->world);
	MP_OK(mp_buf_new(job, kind, BYTES, &buf));
	MP_OK(tutti_irecv(buf.p, BYTES, TUTTI_UINT8, 1, 3, job->world, NULL, &req));
	for (i = 0; i < 5000 && !addr; i++) {
		MP_OK(tutti_test(&req, &done));
		TT_EXPECT(req);
		addr = late_offered(job->ctx->wire);
		mp_sleep_ms(1);
	}
	TT_EXPECT(addr && (addr == buf.p) == (kind == MP_POOL));
	mp_sleep_ms(200); /* the sender puts it on its way */
	close_connection(job, job->world);
	atomic_store(&job->shared->word[0], 1);
	MP_ERR(tutti_wait(&req), -TUTTI_EABORTED);
	MP_OK(mp_buf_free(&buf));
	TT_EXPECT(!take_blocks(job, &b));
	TT_EXPECT(!given_back(job, addr, &b));
	return free_blocks(job, &b);
}

static void receive(void)
{
	enum mp_kind kinds[] = {MP_POOL, MP_PLAIN};
	int i;

	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	for (i = 0; i < 2; i++)
		TT_CHECK(!MP_RUN(.n = 2, .env = RDM, .fn = receive_body, .arg = &kinds[i]));
}

/* ---- gets ---- */

/* Rank 1 is stopped while rank 0 reads from it, and answers after rank 0 has given up. */
static int get_body(struct mp_job *job)
{
	struct tutti_win *win;
	char *base, *local;
	struct blocks b;

	MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&base));
	memset(base, 0xaa, BYTES);
	MP_OK(tutti_win_create(job->world, base, BYTES, 0, &win));
	if (job->rank) {
		TT_EXPECT(mp_await(&job->shared->word[0], 1, 20000));
		TT_EXPECT(!given_back(job, NULL, NULL));
		(void)tutti_win_free(win);
		return 0;
	}
	MP_OK(tutti_alloc(job->ctx, BYTES, (void **)&local));
	MP_OK(tutti_get(win, 1, local, 8, 0));
	MP_OK(tutti_win_flush(win, 1));
	TT_EXPECT((unsigned char)local[7] == 0xaa);
	memset(local, 0, BYTES);
	TT_EXPECT(!mp_stop(atomic_load(&job->shared->pid[1])));
	MP_OK(tutti_get(win, 1, local, BYTES, 0));
	close_connection(job, job->world);
	TT_EXPECT(tutti_win_flush(win, 1) < 0 && !local[BYTES - 1]);
	MP_OK(tutti_free(local));
	TT_EXPECT(!take_blocks(job, &b));
	atomic_store(&job->shared->word[0], 1);
	kill(atomic_load(&job->shared->pid[1]), SIGCONT);
	TT_EXPECT(!given_back(job, local, &b));
	(void)tutti_win_free(win);
	return free_blocks(job, &b);
}

static void get(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!MP_RUN(.n = 2, .env = RDM, .fn = get_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"receive", receive}, {"get", get}, {NULL, NULL}};

	return tt_test_main("late", tests, argc, argv);
}
