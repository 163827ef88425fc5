/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negative displacements in every v form: blocks on both sides of the buffer's address, in every
 * form of the call and in place, against a serial result of all the memory around; and what is
 * refused.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM 800
#define MIDDLE 400
#define MAX 8
#define FORMS 4 /* plain, and by struct: blocking, nonblocking, persistent */

/* The memory of one side of a call. */
struct side {
	int32_t is[ROOM], want[ROOM];
	size_t counts[MAX], displs[MAX];
};

static int32_t value(int from, int to, size_t k)
{
	return from * 10000 + to * 100 + (int32_t)k;
}

/* Blocks of one rank are equal at both sides; those without elements may be anywhere. */
static size_t count_of(int from, int to)
{
	return (from + to) % 3 == 1 ? 0 : (size_t)(2 + from + to);
}

static size_t place_of(int n, int i, size_t count)
{
	return count ? (size_t)((ptrdiff_t)(i - n / 2) * 20 - 4) : (size_t)PTRDIFF_MIN + 5;
}

static void clear(struct side *s)
{
	int i;

	for (i = 0; i < ROOM; i++)
		s->is[i] = s->want[i] = -1;
}

static void put(int32_t *at, const struct side *s, int i, int from, int to)
{
	size_t k;

	for (k = 0; k < s->counts[i]; k++)
		at[MIDDLE + (ptrdiff_t)s->displs[i] + (ptrdiff_t)k] = value(from, to, k);
}

static int check(const struct side *s)
{
	int i;

	for (i = 0; i < ROOM; i++)
		if (s->is[i] != s->want[i]) {
			printf("element %d is %d, not %d\n", i - MIDDLE, s->is[i], s->want[i]);
			return 1;
		}
	return 0;
}

static int plain(struct mp_job *job, const struct tutti_call *c)
{
	switch (c->coll) {
	case TUTTI_COLL_ALLGATHERV:
		return tutti_allgatherv(c->sendbuf, c->count, c->recvbuf, c->recvcounts,
					c->recvdispls, c->datatype, job->world);
	case TUTTI_COLL_GATHERV:
		return tutti_gatherv(c->sendbuf, c->count, c->recvbuf, c->recvcounts, c->recvdispls,
				     c->datatype, c->root, job->world);
	case TUTTI_COLL_SCATTERV:
		return tutti_scatterv(c->sendbuf, c->sendcounts, c->senddispls, c->recvbuf,
				      c->count, c->datatype, c->root, job->world);
	default:
		return tutti_alltoallv(c->sendbuf, c->sendcounts, c->senddispls, c->recvbuf,
				       c->recvcounts, c->recvdispls, c->datatype, job->world);
	}
}

static int run(struct mp_job *job, struct tutti_call c, enum tutti_datatype datatype, int form)
{
	struct tutti_request *req;
	int err;

	c.size = sizeof(c);
	c.datatype = datatype;
	if (form == 0)
		return plain(job, &c);
	if (form == 1)
		return tutti_call(job->world, &c, NULL);
	c.flags = form == 3 ? TUTTI_CALL_PERSISTENT : 0;
	err = tutti_call(job->world, &c, &req);
	if (err)
		return err;
	/* the call has copied them */
	if (c.recvdispls)
		memset((void *)(uintptr_t)c.recvdispls, 1, sizeof(size_t));
	if (c.senddispls)
		memset((void *)(uintptr_t)c.senddispls, 1, sizeof(size_t));
	if (form == 3)
		MP_OK(tutti_start(req));
	MP_OK(tutti_wait(&req));
	return form == 3 ? tutti_request_free(req) : 0;
}

/* Of all ranks' blocks for rank to, or of rank from's for all. */
static void lay_out(struct mp_job *job, struct side *s, int from, int to)
{
	int i;

	clear(s);
	for (i = 0; i < job->n; i++) {
		s->counts[i] = count_of(from < 0 ? i : from, to < 0 ? i : to);
		s->displs[i] = place_of(job->n, i, s->counts[i]);
	}
}

/* Gatherv to root, or to all if it is -1. */
static int gathers(struct mp_job *job, int root, int form, bool in_place)
{
	struct side r;
	int32_t mine[MAX * 4];
	int i, me = job->rank;
	struct tutti_call c = {.coll = root < 0 ? TUTTI_COLL_ALLGATHERV : TUTTI_COLL_GATHERV,
			       .recvbuf = r.is + MIDDLE,
			       .recvcounts = r.counts,
			       .recvdispls = r.displs,
			       .count = count_of(me, 0),
			       .root = root < 0 ? 0 : root};

	lay_out(job, &r, -1, 0);
	for (i = 0; i < MAX * 4; i++)
		mine[i] = value(me, 0, (size_t)i);
	in_place = in_place && (root < 0 || root == me);
	c.sendbuf = in_place ? TUTTI_IN_PLACE : mine;
	if (in_place)
		put(r.is, &r, me, me, 0);
	for (i = 0; i < job->n && (root < 0 || root == me); i++)
		put(r.want, &r, i, i, 0);
	MP_OK(run(job, c, TUTTI_INT32, form));
	return check(&r);
}

static int scatters(struct mp_job *job, int root, int form, bool in_place)
{
	struct side s, r;
	int i, me = job->rank;
	struct tutti_call c = {.coll = TUTTI_COLL_SCATTERV,
			       .sendbuf = s.is + MIDDLE,
			       .sendcounts = s.counts,
			       .senddispls = s.displs,
			       .count = count_of(root, me),
			       .root = root};

	lay_out(job, &s, root, -1);
	clear(&r);
	for (i = 0; i < job->n && me == root; i++)
		put(s.is, &s, i, root, i);
	memcpy(s.want, s.is, sizeof(s.is));
	in_place = in_place && me == root;
	c.recvbuf = in_place ? TUTTI_IN_PLACE : r.is;
	for (i = 0; !in_place && i < (int)c.count; i++)
		r.want[i] = value(root, me, (size_t)i);
	MP_OK(run(job, c, TUTTI_INT32, form));
	return check(&r) || check(&s);
}

static int all_to_all(struct mp_job *job, int form, bool in_place)
{
	struct side s, r;
	int i, me = job->rank;
	struct tutti_call c = {.coll = TUTTI_COLL_ALLTOALLV,
			       .sendbuf = in_place ? TUTTI_IN_PLACE : s.is + MIDDLE,
			       .sendcounts = s.counts,
			       .senddispls = s.displs,
			       .recvbuf = r.is + MIDDLE,
			       .recvcounts = r.counts,
			       .recvdispls = r.displs};

	lay_out(job, &s, me, -1);
	lay_out(job, &r, -1, me); /* as much: count_of is symmetric */
	for (i = 0; i < job->n; i++) {
		put(in_place ? r.is : s.is, &s, i, me, i);
		put(r.want, &r, i, i, me);
	}
	memcpy(s.want, s.is, sizeof(s.is));
	MP_OK(run(job, c, TUTTI_INT32, form));
	return check(&r) || check(&s);
}

static int values_body(struct mp_job *job)
{
	int form, in_place, root;

	for (form = 0; form < FORMS; form++)
		for (in_place = 0; in_place < 2; in_place++) {
			for (root = -1; root < job->n; root++)
				TT_EXPECT(!gathers(job, root, form, in_place));
			for (root = 0; root < job->n; root++)
				TT_EXPECT(!scatters(job, root, form, in_place));
			TT_EXPECT(!all_to_all(job, form, in_place));
		}
	return 0;
}

static int refused_body(struct mp_job *job)
{
	int32_t arena[64] = {0}, *mid = arena + 32, other[8] = {0};
	size_t two[2] = {2, 2}, d[2];
	struct tutti_request *req = (void *)job;

#define AT(a, b) (d[0] = (size_t)(ptrdiff_t)(a), d[1] = (size_t)(ptrdiff_t)(b), d)
	MP_ERR(tutti_allgatherv(other, 2, mid, two, AT(-3, -2), TUTTI_INT32, job->world), -EINVAL);
	MP_SAID("blocks of ranks 0 and 1 overlap");
	MP_ERR(tutti_allgatherv(other, 2, mid, two, AT(0, -1), TUTTI_INT32, job->world), -EINVAL);
	MP_SAID("overlap");
	MP_ERR(tutti_allgatherv(mid - 4, 2, mid, two, AT(job->rank ? -5 : 6, job->rank ? 6 : -5),
				TUTTI_INT32, job->world),
	       -EINVAL);
	MP_SAID("sendbuf and recvbuf overlap");
	MP_ERR(tutti_iallgatherv(other, 2, NULL, two, AT(-2, 2), TUTTI_INT32, job->world, &req),
	       -EINVAL);
	MP_SAID("recvbuf is NULL");
	MP_ERR(tutti_allgatherv(other, 2, mid, two, AT(0, PTRDIFF_MIN), TUTTI_INT32, job->world),
	       -EINVAL);
	MP_SAID("displs[1] is -9223372036854775808: the block begins before all memory");
	MP_ERR(tutti_allgatherv(other, 2, (void *)4096, two, AT(-4096, 0), TUTTI_INT32, job->world),
	       -EINVAL);
	MP_SAID("displs[0] is -4096: the block begins before all memory");
	MP_ERR(tutti_allgatherv(other, 2, mid, two, AT(-2, PTRDIFF_MAX), TUTTI_INT32, job->world),
	       -EINVAL);
	MP_SAID("displs[1] is 9223372036854775807: with displs[0], which is -2, the blocks do not");
	MP_ERR(tutti_alltoallv(mid, two, AT(-2, PTRDIFF_MIN), other, two, NULL, TUTTI_INT32,
			       job->world),
	       -EINVAL);
	MP_SAID("alltoallv: sdispls[1] is -9223372036854775808");
	TT_EXPECT(req == (void *)job);
	/* the caller goes on */
	other[0] = job->rank;
	MP_OK(tutti_allgatherv(other, 2, mid, two, AT(-2, -4), TUTTI_INT32, job->world));
	TT_EXPECT(mid[-2] == 0 && mid[-4] == 1);
	return 0;
}

/* Bytes at a displacement so large that its sum with an address would be no address. */
static int far_from(struct mp_job *job, size_t bytes)
{
	static const char *const names[] = {"allgatherv: displs[0] is", "gatherv: displs[0] is",
					    "scatterv: displs[0] is", "alltoallv: sdispls[0] is",
					    "alltoallv: rdispls[0] is"};
	char s[8] = {0}, r[8] = {0}, said[80];
	size_t one = 1, zero = 0, far = bytes;
	struct tutti_call c[] = {
		{.coll = TUTTI_COLL_ALLGATHERV, .count = 1, .recvcounts = &one, .recvdispls = &far},
		{.coll = TUTTI_COLL_GATHERV, .count = 1, .recvcounts = &one, .recvdispls = &far},
		{.coll = TUTTI_COLL_SCATTERV, .count = 1, .sendcounts = &one, .senddispls = &far},
		{.coll = TUTTI_COLL_ALLTOALLV, .senddispls = &far, .recvdispls = &zero},
		{.coll = TUTTI_COLL_ALLTOALLV, .senddispls = &zero, .recvdispls = &far},
	};
	struct tutti_call empty;
	int i, form;

	for (i = 0; i < 5; i++) {
		c[i].sendbuf = s;
		c[i].recvbuf = r;
		if (c[i].coll == TUTTI_COLL_ALLTOALLV)
			c[i].sendcounts = c[i].recvcounts = &one;
		for (form = 0; form < FORMS; form++) {
			MP_ERR(run(job, c[i], TUTTI_INT8, form), -EINVAL);
			snprintf(said, sizeof(said), "%s %zu: 1 int8", names[i], bytes);
			TT_EXPECT(mp_said(said));
			empty = c[i]; /* of an empty block it may be anything */
			one = empty.count = 0;
			MP_OK(run(job, empty, TUTTI_INT8, form));
			one = 1;
			far = bytes; /* a persistent form writes over its arrays */
			zero = 0;
		}
	}
	return 0;
}

/* Of 57 bits, Linux on x86-64 gives a program 47 if it does not ask for more. */
static int far_body(struct mp_job *job)
{
#ifdef __x86_64__
	int bits;

	for (bits = 47; bits < 57; bits += 3)
		TT_EXPECT(!far_from(job, (size_t)1 << bits));
#endif
	return far_from(job, (size_t)1 << 62);
}

static int all_on(int n, const char *env)
{
	return MP_RUN(.n = n, .fn = values_body, .env = env);
}

static void node(void)
{
	TT_CHECK(!all_on(1, ""));
	TT_CHECK(!all_on(2, ""));
	TT_CHECK(!all_on(4, ""));
}

static void shm(void)
{
	TT_CHECK(!all_on(3, "TUTTI_NODE=off"));
}

static void ofi(void)
{
	if (mp_no_ofi())
		TT_SKIP("%s", mp_no_ofi());
	TT_CHECK(!all_on(3, "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"));
}

static void refused(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = refused_body));
	TT_CHECK(!MP_RUN(.n = 1, .fn = far_body));
}

/*
 * The last page of the address space for a result of no elements: the blocks of a reduce-scatter
 * are in its input.
 */
static int last_page_body(struct mp_job *job)
{
	const size_t counts[2] = {0, 5000};
	int32_t *in = calloc(5000, sizeof(*in)), out[5000], sum = 0;
	void *page = mmap((void *)(((uintptr_t)1 << 47) - 8192), 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int i;

	for (i = 0; i < 5000; i++)
		in[i] = i * (job->rank + 1);
	MP_OK(tutti_reduce_scatter(in, job->rank || page == MAP_FAILED ? out : page, counts,
				   TUTTI_INT32, TUTTI_SUM, job->world));
	for (i = 0; i < 5000 && job->rank; i++)
		sum += out[i] != 3 * i;
	TT_EXPECT(!sum);
	free(in);
	return page == MAP_FAILED ? 0 : munmap(page, 4096);
}

static void last_page(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = last_page_body));
}

/* n blocks of len bytes, with pages between them that must not be touched; all bytes are fill. */
static char *islands(size_t n, size_t len, size_t step, int fill)
{
	char *at = mmap(NULL, n * step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t k;

	for (k = 0; at != MAP_FAILED && k < n; k++) {
		if (mprotect(at + k * step, len, PROT_READ | PROT_WRITE))
			return MAP_FAILED;
		memset(at + k * step, fill, len);
	}
	return at;
}

/* Calls with blocks of len bytes in such memory: rank k sends bytes 1 + k. */
static int over_gaps(struct mp_job *job, int form, size_t len)
{
	size_t n = (size_t)job->n, step = (len + 3 * 4096) & ~(size_t)4095, k, c;
	char *in = islands(n, len, step, 1 + job->rank),
	     *out = islands(n, len, step, 1 + job->rank);
	size_t counts[MAX], displs[MAX];

	TT_EXPECT(in != MAP_FAILED && out != MAP_FAILED);
	for (k = 0; k < n; k++) {
		counts[k] = len;
		displs[k] = k * step;
	}
	if (form == 0)
		MP_OK(tutti_allgatherv(TUTTI_IN_PLACE, len, out, counts, displs, TUTTI_UINT8,
				       job->world));
	else if (form == 1)
		MP_OK(tutti_alltoallv(TUTTI_IN_PLACE, NULL, NULL, out, counts, displs, TUTTI_UINT8,
				      job->world));
	else if (form == 2)
		MP_OK(tutti_alltoallv(in, counts, displs, out, counts, displs, TUTTI_UINT8,
				      job->world));
	else
		MP_OK(tutti_scatterv(in, counts, displs, out, len, TUTTI_UINT8, 1, job->world));
	for (k = 0; k < (form == 3 ? 1 : n); k++)
		for (c = 0; c < len; c++)
			TT_EXPECT(out[displs[k] + c] == (char)(form == 3 ? 2 : 1 + k));
	TT_EXPECT(!munmap(in, n * step) && !munmap(out, n * step));
	return 0;
}

static int gaps_body(struct mp_job *job)
{
	static const size_t lengths[] = {1000, 8192, 20000, 40000, 400000};
	struct tutti_config config = {0};
	size_t i;
	int form;

	if (job->arg) {
		TT_EXPECT(!mp_forbid_vm());
		MP_OK(mp_join(job, MP_ID, &config));
	}
	for (form = 0; form < 4; form++)
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
			TT_EXPECT(!over_gaps(job, form, lengths[i]));
	if (job->arg)
		MP_OK(mp_leave(job));
	return 0;
}

static void gaps(void)
{
	static char forbid;
	int n;

	for (n = 2; n <= 4; n++)
		TT_CHECK(!MP_RUN(.n = n, .env = "TUTTI_NODE=on", .fn = gaps_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=off TUTTI_TRANSPORT=shm", .fn = gaps_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_NODE=on", .fn = gaps_body, .arg = &forbid,
			 .no_init = true));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"node", node},		  {"shm", shm},	  {"ofi", ofi}, {"refused", refused},
		{"last_page", last_page}, {"gaps", gaps}, {NULL, NULL},
	};

	return tt_test_main("displs", tests, argc, argv);
}
