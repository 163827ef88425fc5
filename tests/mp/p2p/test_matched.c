/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous sends, matched probes, and datatypes that differ between sender and receiver. */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define OFI "TUTTI_TRANSPORT=ofi TUTTI_IF=lo"
#define FAULT "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=41,delay=0.1:100,reorder=0.4,again=0.2"

static void on_all(int n, mp_fn *fn)
{
	TT_CHECK(!MP_RUN(.n = n, .env = SHM, .fn = fn));
	TT_CHECK(!MP_RUN(.n = n, .env = FAULT, .fn = fn));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = n, .env = OFI, .fn = fn));
}

static void fill(char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)(seed * 37 + i * 11 + (i >> 8));
}

static bool check(const char *p, size_t n, unsigned seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != (char)(seed * 37 + i * 11 + (i >> 8)))
			return false;
	return true;
}

/* ---- synchronous sends ---- */

static const size_t sizes[] = {0, 8, 4096, 4097, 3000000};
#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

/* Not complete while there is no receive, however often it is tested. */
static int sync_one(struct mp_job *job, char *buf, size_t n, bool expected)
{
	struct tutti_request *req = NULL;
	struct tutti_status status = {0};
	int i, done = 0, peer = !job->rank;

	if (job->rank == 1) {
		fill(buf, n, (unsigned)n);
		if (expected)
			MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_issend(buf, n, TUTTI_UINT8, peer, 4, job->world, &req));
		if (!expected)
			MP_OK(tutti_barrier(job->world));
		for (i = 0; !expected && i < 40; i++) {
			MP_OK(tutti_test(&req, &done));
			TT_EXPECT(!done);
		}
		if (!expected)
			MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_wait(&req));
		return 0;
	}
	memset(buf, 0, n + 1);
	if (expected) {
		MP_OK(tutti_irecv(buf, n, TUTTI_UINT8, peer, 4, job->world, &status, &req));
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_probe(peer, 4, job->world, &status)); /* does not match it */
		TT_EXPECT(status.bytes == n);
		MP_OK(tutti_barrier(job->world));
		MP_OK(tutti_recv(buf, n, TUTTI_UINT8, peer, 4, job->world, &status));
	}
	TT_EXPECT(status.bytes == n && check(buf, n, (unsigned)n));
	return 0;
}

/* More than the receiver admits; the persistent form; one that is too long for its receive. */
static int sync_many(struct mp_job *job, char *buf)
{
	enum { MANY = 150 };
	struct tutti_request *req[MANY];
	int v[MANY], i, got;

	for (i = 0; job->rank == 1 && i < MANY; i++) {
		v[i] = i * 3;
		MP_OK(tutti_issend(&v[i], 1, TUTTI_INT32, 0, i, job->world, &req[i]));
	}
	for (i = MANY - 1; job->rank == 0 && i >= 0; i--) {
		MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, i, job->world, NULL));
		TT_EXPECT(got == i * 3);
	}
	if (job->rank == 1)
		MP_OK(tutti_waitall(MANY, req));
	if (job->rank == 1)
		MP_OK(tutti_ssend_init(&v[0], 1, TUTTI_INT32, 0, 1, job->world, &req[0]));
	for (i = 0; i < 20; i++) {
		v[0] = i;
		if (job->rank == 1) {
			MP_OK(tutti_start(req[0]));
			MP_OK(tutti_wait(&req[0]));
		} else {
			MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, 1, job->world, NULL));
			TT_EXPECT(got == i);
		}
	}
	if (job->rank == 1)
		MP_OK(tutti_request_free(req[0]));
	for (i = 0; i < NSIZES; i++) {
		if (job->rank == 1)
			MP_OK(tutti_ssend(buf, sizes[i], TUTTI_UINT8, 0, 2, job->world));
		else
			MP_ERR(tutti_recv(&got, 3, TUTTI_UINT8, 1, 2, job->world, NULL),
			       sizes[i] > 3 ? -EMSGSIZE : 0);
	}
	return 0;
}

static int sync_body(struct mp_job *job)
{
	char *buf = malloc(3000001);
	int i;

	for (i = 0; i < NSIZES; i++) {
		TT_EXPECT(!sync_one(job, buf, sizes[i], false));
		TT_EXPECT(!sync_one(job, buf, sizes[i], true));
	}
	TT_EXPECT(!sync_many(job, buf));
	free(buf);
	return 0;
}

static int sync_self_body(struct mp_job *job)
{
	struct tutti_request *req;
	int i, done, v = 5, got = 0;

	for (i = 0; i < 2; i++) {
		MP_OK(tutti_issend(&v, (size_t)i, TUTTI_INT32, 0, 1, job->world, &req));
		MP_OK(tutti_test(&req, &done));
		TT_EXPECT(!done);
		MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 0, 1, job->world, NULL));
		MP_OK(tutti_wait(&req));
		TT_EXPECT(got == (i ? 5 : 0));
	}
	return 0;
}

/* The receiver never receives, or dies. */
static int sync_vain_body(struct mp_job *job)
{
	struct tutti_comm *dup;
	int v = 1;

	MP_OK(tutti_comm_dup(job->world, &dup));
	if (job->rank == 0) {
		MP_OK(tutti_comm_set_timeout(dup, 300));
		MP_ERR(tutti_ssend(&v, 1, TUTTI_INT32, 1, 4, dup), -ETIMEDOUT);
		MP_SAID("ssend to rank 1 (tag 4");
		MP_SAID("has not received it; the errors there say whether a receive was refused");
	}
	mp_meet(job);
	MP_OK(tutti_barrier(job->world));
	mp_meet(job);
	if (job->rank == 1)
		raise(SIGKILL);
	MP_ERR(tutti_ssend(&v, 1, TUTTI_INT32, 1, 4, job->world), -TUTTI_EPEER);
	mp_leave(job);
	return 0;
}

static void sync_(void)
{
	on_all(2, sync_body);
	TT_CHECK(!MP_RUN(.n = 1, .fn = sync_self_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = sync_vain_body, .killed = 2));
}

/* ---- matched probes ---- */

enum { EACH = 60, HELD = 9 };

static size_t len_of(int from, int i)
{
	return i % 5 == 4 ? 40000 + (size_t)i : (size_t)(i * 13 + from);
}

struct held {
	struct tutti_message *msg;
	struct tutti_status status;
	int nth;
};

static int receive_held(struct mp_job *job, struct held *h, char *buf)
{
	struct tutti_request *req;
	struct tutti_status status = {0};
	size_t n = h->status.bytes;

	if (h->nth % 2) {
		MP_OK(tutti_mrecv(buf, 50000, TUTTI_UINT8, &h->msg, &status));
	} else {
		MP_OK(tutti_imrecv(buf, 50000, TUTTI_UINT8, &h->msg, &status, &req));
		MP_OK(tutti_wait(&req));
	}
	TT_EXPECT(!h->msg && status.bytes == n && status.tag == h->nth % 3);
	TT_EXPECT(status.source == h->status.source && status.datatype == TUTTI_UINT8);
	TT_EXPECT(n == len_of(status.source, h->nth));
	TT_EXPECT(check(buf, n, (unsigned)(status.source * 1000 + h->nth)));
	return 0;
}

/* A quarter of them synchronously. */
static int send_each(struct mp_job *job)
{
	struct tutti_request *req[EACH];
	char *buf[EACH];
	size_t n;
	int i;

	for (i = 0; i < EACH; i++) {
		n = len_of(job->rank, i);
		buf[i] = malloc(n);
		fill(buf[i], n, (unsigned)(job->rank * 1000 + i));
		MP_OK((i % 4 ? tutti_isend : tutti_issend)(buf[i], n, TUTTI_UINT8, 0, i % 3,
							   job->world, &req[i]));
	}
	MP_OK(tutti_waitall(EACH, req));
	for (i = 0; i < EACH; i++)
		free(buf[i]);
	return 0;
}

/* Those of one sender are found in its order, and may be received in any. */
static int mprobe_body(struct mp_job *job)
{
	int next[MP_MAX] = {0}, i, k, found, all = (job->n - 1) * EACH, nheld = 0;
	char *buf = malloc(50000);
	struct held held[HELD], *h;

	if (job->rank) {
		free(buf);
		return send_each(job);
	}
	for (i = 0; i < all; i++) {
		h = &held[nheld];
		found = i % 2;
		if (found)
			MP_OK(tutti_mprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &h->msg,
					   &h->status));
		while (!found)
			MP_OK(tutti_improbe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &found,
					    &h->msg, &h->status));
		h->nth = next[h->status.source]++;
		for (k = ++nheld; k == HELD && nheld > HELD / 2;)
			TT_EXPECT(!receive_held(job, &held[--nheld], buf));
	}
	while (nheld)
		TT_EXPECT(!receive_held(job, &held[--nheld], buf));
	free(buf);
	return 0;
}

/* A second receive through a copy of the pointer is refused, also within a group. */
static int stale_body(struct mp_job *job)
{
	struct tutti_message *msg = NULL, *copy, *other;
	struct tutti_request *req = NULL;
	int got = 0, i;

	for (i = 1; job->rank == 1 && i <= 2; i++)
		MP_OK(tutti_send(&i, 1, TUTTI_INT32, 0, 3, job->world));
	if (job->rank == 1)
		return 0;
	MP_OK(tutti_mprobe(1, 3, job->world, &msg, NULL));
	copy = other = msg;
	MP_OK(tutti_mrecv(&got, 1, TUTTI_INT32, &msg, NULL));
	TT_EXPECT(got == 1);
	MP_ERR(tutti_mrecv(&got, 1, TUTTI_INT32, &copy, NULL), -EINVAL);
	MP_SAID("received already");
	MP_ERR(tutti_imrecv(&got, 1, TUTTI_INT32, &copy, NULL, &req), -EINVAL);
	TT_EXPECT(copy == other && !req);
	MP_OK(tutti_mprobe(1, 3, job->world, &msg, NULL));
	copy = msg;
	MP_OK(tutti_group_start());
	MP_OK(tutti_mrecv(&got, 1, TUTTI_INT32, &msg, NULL));
	MP_OK(tutti_mrecv(&i, 1, TUTTI_INT32, &copy, NULL));
	MP_ERR(tutti_group_end(), -EINVAL);
	MP_SAID("received already");
	TT_EXPECT(got == 2);
	return 0;
}

static void stale(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .fn = stale_body));
}

/* Nothing else finds a message that a probe has taken; its communicator's end drops it. */
static int taken_body(struct mp_job *job)
{
	struct tutti_message *msg = NULL, *none = NULL;
	struct tutti_status status;
	struct tutti_comm *dup;
	int v[2] = {1, 2}, got = 0, found, i;

	MP_OK(tutti_comm_dup(job->world, &dup));
	if (job->rank == 1) {
		for (i = 0; i < 2; i++)
			MP_OK(tutti_send(&v[i], 1, TUTTI_INT32, 0, 3, dup));
	} else {
		MP_OK(tutti_mprobe(1, 3, dup, &msg, &status));
		MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, TUTTI_ANY_TAG, dup, NULL));
		TT_EXPECT(got == 2);
		MP_OK(tutti_iprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, dup, &found, NULL));
		TT_EXPECT(!found);
		MP_OK(tutti_improbe(1, 3, dup, &found, &none, NULL));
		TT_EXPECT(!found && !none);
		MP_ERR(tutti_mrecv(NULL, 1, TUTTI_INT32, &msg, NULL), -EINVAL);
		TT_EXPECT(msg); /* a wrong call does not use it up */
		MP_ERR(tutti_mrecv(&got, 0, TUTTI_INT32, &msg, NULL), -EMSGSIZE);
		TT_EXPECT(!msg);
		MP_ERR(tutti_mrecv(&got, 1, TUTTI_INT32, &msg, NULL), -EINVAL);
		MP_SAID("there is no message");
		MP_ERR(tutti_mrecv(&got, 1, TUTTI_INT32, NULL, NULL), -EINVAL);
		MP_ERR(tutti_mprobe(1, 3, dup, NULL, NULL), -EINVAL);
		MP_ERR(tutti_improbe(1, 3, dup, NULL, &msg, NULL), -EINVAL);
		MP_OK(tutti_comm_set_timeout(dup, 100));
		MP_ERR(tutti_mprobe(1, 3, dup, &msg, NULL), -ETIMEDOUT);
		TT_EXPECT(!msg);
		MP_OK(tutti_comm_set_timeout(dup, 0));
	}
	MP_OK(tutti_barrier(dup));
	if (job->rank == 1)
		MP_OK(tutti_send(&v[0], 1, TUTTI_INT32, 0, 3, dup));
	else
		MP_OK(tutti_mprobe(1, 3, dup, &msg, NULL));
	MP_OK(tutti_barrier(dup));
	MP_OK(tutti_comm_free(dup));
	return 0;
}

/* Threads that probe and receive on one communicator: each message once, whole. */
struct taker {
	struct mp_job *job;
	int seen[4 * EACH], failed;
};

static int take_all(struct taker *t)
{
	struct mp_job *job = t->job;
	struct tutti_message *msg;
	struct tutti_status status;
	char *buf = malloc(50000);
	int i;

	for (i = 0; i < EACH; i++) {
		MP_OK(tutti_mprobe(TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, job->world, &msg, &status));
		MP_OK(tutti_mrecv(buf, 50000, TUTTI_UINT8, &msg, NULL));
		TT_EXPECT(status.bytes == len_of(1, status.tag % EACH));
		TT_EXPECT(check(buf, status.bytes, (unsigned)status.tag));
		t->seen[status.tag]++;
	}
	free(buf);
	return 0;
}

static void *take_thread(void *arg)
{
	struct taker *t = arg;

	t->failed = take_all(t);
	return NULL;
}

static int takers_body(struct mp_job *job)
{
	struct taker *t = calloc(4, sizeof(*t));
	char *buf = malloc(50000);
	pthread_t thread[4];
	int i, k, sum, failed = 0;

	for (i = 0; job->rank == 1 && i < 4 * EACH; i++) {
		fill(buf, len_of(1, i % EACH), (unsigned)i);
		MP_OK(tutti_send(buf, len_of(1, i % EACH), TUTTI_UINT8, 0, i, job->world));
	}
	for (i = 0; job->rank == 0 && i < 4; i++) {
		t[i].job = job;
		TT_EXPECT(!pthread_create(&thread[i], NULL, take_thread, &t[i]));
	}
	for (i = 0; job->rank == 0 && i < 4; i++) {
		pthread_join(thread[i], NULL);
		failed |= t[i].failed;
	}
	for (k = 0; job->rank == 0 && !failed && k < 4 * EACH; k++) {
		for (sum = 0, i = 0; i < 4; i++)
			sum += t[i].seen[k];
		TT_EXPECT(sum == 1);
	}
	free(buf);
	free(t);
	return failed;
}

/*
 * The sender dies after its messages were taken out: the payload that it kept fails, the one that
 * came along does not.
 */
static int lost_body(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	static char big[100000], got[100000];
	struct tutti_message *msg[2];
	struct tutti_request *req;
	struct tutti_comm *comm;
	int i, found;

	MP_OK(tutti_comm_create(job->world, &how, &comm));
	if (job->rank == 1) {
		fill(big, sizeof(big), 3);
		MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 0, 0, comm, &req));
		MP_OK(tutti_send(big, 10, TUTTI_UINT8, 0, 1, comm));
		mp_meet(job);
		raise(SIGKILL);
	}
	for (i = 0; i < 2; i++)
		MP_OK(tutti_mprobe(1, i, comm, &msg[i], NULL));
	mp_meet(job);
	do
		i = tutti_iprobe(1, 0, comm, &found, NULL);
	while (!i);
	MP_ERR(i, -TUTTI_EPEER);
	MP_ERR(tutti_mrecv(got, sizeof(got), TUTTI_UINT8, &msg[0], NULL), -TUTTI_EPEER);
	MP_SAID("recv from rank 1 (tag 0");
	MP_OK(tutti_mrecv(got, sizeof(got), TUTTI_UINT8, &msg[1], NULL));
	TT_EXPECT(!msg[0] && !msg[1] && check(got, 10, 3));
	(void)tutti_comm_free(comm);
	mp_leave(job);
	return 0;
}

/*
 * A message whose sender kept its payload and died is not passed over: the next one of its tag
 * would be taken for it. One of another tag is received.
 */
static int passed_over_body(struct mp_job *job)
{
	struct tutti_comm_config how = {.size = sizeof(how), .flags = TUTTI_COMM_TOLERANT};
	static char big[100000], got[100000];
	struct tutti_request *req;
	struct tutti_comm *comm;
	int i, found;

	MP_OK(tutti_comm_create(job->world, &how, &comm));
	if (job->rank == 1) {
		fill(big, sizeof(big), 3);
		MP_OK(tutti_isend(big, sizeof(big), TUTTI_UINT8, 0, 0, comm, &req));
		MP_OK(tutti_send(big, 10, TUTTI_UINT8, 0, 0, comm));
		MP_OK(tutti_send(big, 20, TUTTI_UINT8, 0, 1, comm));
		mp_meet(job);
		raise(SIGKILL);
	}
	MP_OK(tutti_probe(1, 1, comm, NULL)); /* all three are here */
	mp_meet(job);
	do
		i = tutti_iprobe(1, 0, comm, &found, NULL);
	while (!i);
	MP_ERR(i, -TUTTI_EPEER);
	MP_ERR(tutti_recv(got, sizeof(got), TUTTI_UINT8, 1, 0, comm, NULL), -TUTTI_EPEER);
	MP_ERR(tutti_recv(got, sizeof(got), TUTTI_UINT8, TUTTI_ANY_SOURCE, 0, comm, NULL),
	       -TUTTI_EPEER);
	MP_ERR(tutti_recv(got, sizeof(got), TUTTI_UINT8, 1, TUTTI_ANY_TAG, comm, NULL),
	       -TUTTI_EPEER);
	MP_OK(tutti_recv(got, sizeof(got), TUTTI_UINT8, 1, 1, comm, NULL));
	TT_EXPECT(check(got, 20, 3));
	(void)tutti_comm_free(comm);
	mp_leave(job);
	return 0;
}

static void lost(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_TIMEOUT=5s", .fn = passed_over_body,
			 .killed = 2));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_TIMEOUT=5s", .fn = lost_body, .killed = 2));
	if (!mp_no_ofi())
		TT_CHECK(!MP_RUN(.n = 2, .env = OFI " TUTTI_TIMEOUT=5s", .fn = lost_body,
				 .killed = 2));
}

static void mprobe(void)
{
	on_all(4, mprobe_body);
	on_all(2, taken_body);
	on_all(2, takers_body);
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = takers_body));
}

/* ---- datatypes that differ ---- */

/* Short and long, expected and not; the sender and later messages do not notice. */
static int types_body(struct mp_job *job)
{
	static const size_t count[] = {1, 1000, 1500, 700000};
	char *buf = calloc(700000, 4);
	struct tutti_status status;
	struct tutti_request *req;
	int i, k, late;
	size_t n;

	for (i = 0; i < 8; i++) {
		n = count[i % 4];
		late = i / 4;
		if (job->rank == 0) {
			if (!late)
				MP_OK(tutti_barrier(job->world));
			MP_OK(tutti_issend(buf, n, TUTTI_INT32, 1, 3, job->world, &req));
			if (late)
				MP_OK(tutti_barrier(job->world));
			MP_OK(tutti_wait(&req));
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, 1, 4, job->world));
			continue;
		}
		memset(buf, 0x55, n * 4);
		if (late) {
			MP_OK(tutti_barrier(job->world));
			MP_OK(tutti_probe(0, 3, job->world, &status));
			TT_EXPECT(status.datatype == TUTTI_INT32);
		}
		MP_OK(tutti_irecv(buf, n, TUTTI_FLOAT32, 0, 3, job->world, &status, &req));
		if (!late)
			MP_OK(tutti_barrier(job->world));
		MP_ERR(tutti_wait(&req), -TUTTI_EMISMATCH);
		MP_SAID("rank 0 sent int32 (tag 3");
		MP_SAID("this rank (1) receives float32");
		TT_EXPECT(status.datatype == TUTTI_INT32 && status.bytes == 4 * n);
		for (k = 0; k < (int)n * 4; k++)
			TT_EXPECT(buf[k] == 0x55);
		MP_OK(tutti_recv(&k, 1, TUTTI_INT32, 0, 4, job->world, NULL));
		TT_EXPECT(k == i);
	}
	if (job->rank == 0) {
		MP_OK(tutti_send(buf, 2, TUTTI_OPAQUE(24), 1, 3, job->world));
	} else {
		MP_ERR(tutti_recv(buf, 3, TUTTI_OPAQUE(16), 0, 3, job->world, &status),
		       -TUTTI_EMISMATCH);
		MP_SAID("rank 0 sent opaque of 24 bytes (tag 3");
		MP_SAID("this rank (1) receives opaque of 16 bytes");
	}
	/* nothing differs in a message without elements */
	if (job->rank == 0)
		MP_OK(tutti_send(NULL, 0, TUTTI_INT32, 1, 3, job->world));
	else
		MP_OK(tutti_recv(buf, 5, TUTTI_FLOAT64, 0, 3, job->world, &status));
	TT_EXPECT(job->rank == 0 || (status.bytes == 0 && status.datatype == TUTTI_INT32));
	MP_OK(tutti_barrier(job->world));
	free(buf);
	return 0;
}

static void types(void)
{
	on_all(2, types_body);
}

static void verbs(void)
{
	if (mp_no_verbs())
		TT_SKIP("%s", mp_no_verbs());
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = sync_body));
	TT_CHECK(!MP_RUN(.n = 3, .env = "TUTTI_TRANSPORT=verbs", .fn = mprobe_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=verbs", .fn = types_body));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"sync", sync_},  {"mprobe", mprobe}, {"lost", lost}, {"stale", stale},
		{"types", types}, {"verbs", verbs},   {NULL, NULL}};

	return tt_test_main("matched", tests, argc, argv);
}
