/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short messages of one host, which travel whole and end blocking calls without a request: beside
 * longer ones of the same pair, wildcards, other receives, probes and communicators, errors,
 * threads, and a sender that is killed.
 */
#include "config.h"

#include "tests/mp/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SHM "TUTTI_TRANSPORT=shm"
#define SPIN SHM " TUTTI_WAIT=spin" /* a receive looks for its message for long */

enum { LONGEST = 70000, ROUNDS = 300 };

/* Both ranks have sent and received, so that later messages take the short way. */
static int warm_up(struct mp_job *job, struct tutti_comm *comm)
{
	int i, v = 0, peer = !job->rank;

	for (i = 0; i < 4; i++) {
		if (job->rank == 0)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, peer, 77, comm));
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, peer, 77, comm, NULL));
		if (job->rank == 1)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, peer, 77, comm));
	}
	return 0;
}

/* ---- order: lengths and kinds of sends in turn, one tag; all kinds of receives ---- */

static size_t length_of(int i)
{
	static const size_t lengths[] = {8,    0, 48, 4096,    16,   4097, 1,	5000,
					 1000, 8, 8,  LONGEST, 4095, 8192, 8193};

	return lengths[(size_t)i % (sizeof(lengths) / sizeof(lengths[0]))];
}

static void fill(unsigned char *buf, int i)
{
	size_t k;

	for (k = 0; k < length_of(i); k++)
		buf[k] = (unsigned char)((size_t)i * 7 + k);
}

static int send_all(struct mp_job *job, unsigned char *buf)
{
	struct tutti_request *req;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		fill(buf, i);
		switch (i % 4) {
		case 1:
			MP_OK(tutti_isend(buf, length_of(i), TUTTI_UINT8, 0, i, job->world, &req));
			MP_OK(tutti_wait(&req));
			break;
		case 3:
			MP_OK(tutti_ssend(buf, length_of(i), TUTTI_UINT8, 0, i, job->world));
			break;
		default:
			MP_OK(tutti_send(buf, length_of(i), TUTTI_UINT8, 0, i, job->world));
		}
	}
	return 0;
}

static int recv_one(struct mp_job *job, unsigned char *buf, int i, struct tutti_status *status)
{
	int source = i % 3 == 0 ? TUTTI_ANY_SOURCE : 1, tag = i % 5 == 0 ? i : TUTTI_ANY_TAG;
	struct tutti_request *req;

	if (i % 7 == 0)
		MP_OK(tutti_probe(source, tag, job->world, status));
	if (i % 4 == 1) {
		MP_OK(tutti_irecv(buf, LONGEST, TUTTI_UINT8, source, tag, job->world, status,
				  &req));
		MP_OK(tutti_wait(&req));
	} else {
		MP_OK(tutti_recv(buf, LONGEST, TUTTI_UINT8, source, tag, job->world, status));
	}
	return 0;
}

static int order_body(struct mp_job *job)
{
	static unsigned char buf[LONGEST], want[LONGEST];
	struct tutti_status status;
	int i;

	TT_EXPECT(!warm_up(job, job->world));
	if (job->rank == 1)
		return send_all(job, buf);
	for (i = 0; i < ROUNDS; i++) {
		if (i % 40 == 39) /* several wait, and the ring is full */
			mp_sleep_ms(5);
		memset(buf, 0xee, 64);
		TT_EXPECT(!recv_one(job, buf, i, &status));
		TT_EXPECT(status.source == 1 && status.tag == i && status.bytes == length_of(i));
		fill(want, i);
		TT_EXPECT(!memcmp(buf, want, length_of(i)));
	}
	return 0;
}

/* Sends of twice TUTTI_EAGER, of ordinary memory also nonblocking, do not wait for receives. */
static int unawaited_body(struct mp_job *job)
{
	static unsigned char buf[8192], want[8192];
	struct tutti_request *req;

	TT_EXPECT(!warm_up(job, job->world));
	memset(want, 0x5a, sizeof(want));
	if (job->rank == 1) {
		MP_OK(tutti_send(want, sizeof(want), TUTTI_UINT8, 0, 1, job->world));
		MP_OK(tutti_isend(want, sizeof(want), TUTTI_UINT8, 0, 1, job->world, &req));
		MP_OK(tutti_wait(&req));
		atomic_store(&job->shared->word[0], 1);
		return 0;
	}
	TT_EXPECT(mp_await(&job->shared->word[0], 1, MP_HANG_MS));
	MP_OK(tutti_recv(buf, sizeof(buf), TUTTI_UINT8, 1, 1, job->world, NULL));
	TT_EXPECT(!memcmp(buf, want, sizeof(buf)));
	memset(buf, 0, sizeof(buf));
	MP_OK(tutti_recv(buf, sizeof(buf), TUTTI_UINT8, 1, 1, job->world, NULL));
	TT_EXPECT(!memcmp(buf, want, sizeof(buf)));
	return 0;
}

static void order(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = unawaited_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SPIN, .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_WAIT=sleep", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_EAGER=64", .fn = order_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_TRANSPORT=fault:shm TUTTI_FAULT=seed=3,reorder=0.5",
			 .fn = order_body));
}

/* ---- a blocking receive does not take what belongs to another one ---- */

static int claims_body(struct mp_job *job)
{
	struct tutti_comm *other;
	struct tutti_request *any, *own;
	struct tutti_status status;
	int i, a, b, v[3];

	MP_OK(tutti_comm_dup(job->world, &other));
	TT_EXPECT(!warm_up(job, job->world) && !warm_up(job, other));
	for (i = 0; i < ROUNDS; i++) {
		mp_meet(job);
		v[0] = 10 * i, v[1] = 10 * i + 1, v[2] = 10 * i + 2;
		if (job->rank == 1) { /* the middle one is of another communicator */
			MP_OK(tutti_send(&v[0], 1, TUTTI_INT32, 0, 5, job->world));
			MP_OK(tutti_send(&v[1], 1, TUTTI_INT32, 0, 5, other));
			MP_OK(tutti_send(&v[2], 1, TUTTI_INT32, 0, 5 + i % 2, job->world));
			continue;
		}
		if (i % 3 == 0) { /* posted first, so it gets the first one */
			MP_OK(tutti_irecv(&a, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG,
					  job->world, NULL, &any));
			MP_OK(tutti_recv(&b, 1, TUTTI_INT32, 1, 5 + i % 2, job->world, &status));
			MP_OK(tutti_wait(&any));
		} else if (i % 3 == 1) { /* the later one first, where its tag differs */
			MP_OK(tutti_irecv(&a, 1, TUTTI_INT32, 1, 5, job->world, NULL, &own));
			MP_OK(tutti_recv(&b, 1, TUTTI_INT32, 1, 5 + i % 2, job->world, &status));
			MP_OK(tutti_wait(&own));
		} else {
			MP_OK(tutti_recv(&a, 1, TUTTI_INT32, 1, TUTTI_ANY_TAG, job->world, NULL));
			MP_OK(tutti_recv(&b, 1, TUTTI_INT32, 1, 5 + i % 2, job->world, &status));
		}
		TT_EXPECT(a == v[0]);
		TT_EXPECT(b == v[2] && status.tag == 5 + i % 2 && status.bytes == 4);
		MP_OK(tutti_recv(&a, 1, TUTTI_INT32, 1, 5, other, NULL));
		TT_EXPECT(a == v[1]);
	}
	return tutti_comm_free(other);
}

/* Messages with equal numbers in two communicators, and tags, received in another order. */
static int picks_body(struct mp_job *job)
{
	struct tutti_comm *comm[2] = {job->world, NULL};
	static const int order[] = {1, 3, 2, 0};
	int i, k, n, v, got;

	MP_OK(tutti_comm_dup(job->world, &comm[1]));
	TT_EXPECT(!warm_up(job, comm[0]) && !warm_up(job, comm[1]));
	for (i = 0; i < ROUNDS; i++) {
		mp_meet(job);
		for (k = 0; k < 4 && job->rank == 1; k++) { /* comm 0 and 1, tag 1 and 2 in turn */
			v = i * 4 + k;
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 1 + k / 2, comm[k % 2]));
		}
		for (n = 0; n < 4 && job->rank == 0; n++) {
			k = order[n];
			MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, 1 + k / 2, comm[k % 2], NULL));
			TT_EXPECT(got == i * 4 + k);
		}
		mp_meet(job);
		for (n = 0; n < 4 && job->rank == 1; n++) /* one communicator after the other */
			MP_OK(tutti_send(&n, 1, TUTTI_INT32, 0, n % 2, comm[n / 2]));
		for (n = 0; n < 4 && job->rank == 0; n++) {
			MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 1, !(n % 2), comm[n / 2], NULL));
			TT_EXPECT(got == (n ^ 1));
		}
	}
	return tutti_comm_free(comm[1]);
}

enum { POSTED = 12 };

/* Source and tag of receive i, tag of message i; all ranks draw the same. */
struct draw {
	int source[POSTED], tag[POSTED], sent[POSTED];
};

static void draw(struct draw *d, int round)
{
	unsigned seed = (unsigned)round;
	int i;

	for (i = 0; i < POSTED; i++) {
		d->source[i] = rand_r(&seed) % 3 ? 1 : TUTTI_ANY_SOURCE;
		d->tag[i] = rand_r(&seed) % 4 ? (int)(rand_r(&seed) % 3) : TUTTI_ANY_TAG;
		d->sent[i] = (int)(rand_r(&seed) % 3);
	}
}

/* The message that each posted receive gets, -1: none; the messages that none gets, in order. */
static int match(const struct draw *d, int *gets, int *left)
{
	int m, r, n = 0;

	for (r = 0; r < POSTED; r++)
		gets[r] = -1;
	for (m = 0; m < POSTED; m++) {
		for (r = 0; r < POSTED; r++)
			if (gets[r] < 0 && (d->tag[r] < 0 || d->tag[r] == d->sent[m]))
				break;
		if (r < POSTED)
			gets[r] = m;
		else
			left[n++] = m;
	}
	return n;
}

static int receive_posted(struct mp_job *job, const struct draw *d)
{
	int gets[POSTED], left[POSTED], value[POSTED], n = match(d, gets, left), i, last;
	struct tutti_status status[POSTED];
	struct tutti_request *req[POSTED];

	for (i = 0; i < POSTED; i++)
		MP_OK(tutti_irecv(&value[i], 1, TUTTI_INT32, d->source[i], d->tag[i], job->world,
				  &status[i], &req[i]));
	mp_meet(job);
	MP_OK(tutti_recv(&last, 1, TUTTI_INT32, 1, 9, job->world, NULL)); /* all have come */
	for (i = 0; i < POSTED; i++) {
		if (gets[i] < 0) {
			MP_OK(tutti_cancel(req[i]));
			MP_ERR(tutti_wait(&req[i]), -ECANCELED);
			continue;
		}
		MP_OK(tutti_wait(&req[i]));
		TT_EXPECT(value[i] == gets[i] && status[i].tag == d->sent[gets[i]] &&
			  status[i].source == 1 && status[i].bytes == 4);
	}
	for (i = 0; i < n; i++) {
		MP_OK(tutti_recv(&last, 1, TUTTI_INT32, 1, TUTTI_ANY_TAG, job->world, NULL));
		TT_EXPECT(last == left[i]);
	}
	return 0;
}

/* Receives wait before the messages come, and get them in the order in which they were posted. */
static int posted_body(struct mp_job *job)
{
	struct draw d;
	int round, i;

	TT_EXPECT(!warm_up(job, job->world));
	for (round = 0; round < ROUNDS; round++) {
		draw(&d, round);
		if (job->rank == 0) {
			TT_EXPECT(!receive_posted(job, &d));
			continue;
		}
		mp_meet(job);
		for (i = 0; i < POSTED; i++)
			MP_OK(tutti_send(&i, 1, TUTTI_INT32, 0, d.sent[i], job->world));
		MP_OK(tutti_send(&i, 1, TUTTI_INT32, 0, 9, job->world));
	}
	return 0;
}

static void claims(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = posted_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = posted_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = claims_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SPIN, .fn = claims_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_WAIT=sleep", .fn = claims_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = picks_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SPIN, .fn = picks_body));
}

/* ---- early: messages that are there before their receives ---- */

static int take_early(struct mp_job *job, int tag, bool blocking, int want)
{
	struct tutti_status status;
	struct tutti_request *req;
	int got = -1;

	if (blocking) {
		MP_OK(tutti_recv(&got, 1, TUTTI_INT32, 0, tag, job->world, &status));
	} else {
		MP_OK(tutti_irecv(&got, 1, TUTTI_INT32, 0, tag, job->world, &status, &req));
		MP_OK(tutti_cancel(req)); /* too late */
		MP_OK(tutti_wait(&req));
	}
	TT_EXPECT(got == want && status.source == 0 && status.tag == tag && status.bytes == 4);
	return 0;
}

/* A request that has been a receive is a send now, and says so. */
static int say_kind(struct mp_job *job)
{
	struct tutti_request *req;
	int v = 0;

	if (job->rank == 1)
		MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 1, job->world));
	MP_OK(tutti_barrier(job->world));
	if (job->rank == 1) {
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, 0, 2, job->world, NULL));
		return 0;
	}
	MP_OK(tutti_irecv(&v, 1, TUTTI_INT32, 1, 1, job->world, NULL, &req));
	MP_OK(tutti_wait(&req));
	MP_OK(tutti_isend(&v, 1, TUTTI_INT32, 1, 2, job->world, &req));
	MP_ERR(tutti_cancel(req), -EINVAL);
	MP_SAID("it is send");
	MP_OK(tutti_wait(&req));
	return 0;
}

static int early_body(struct mp_job *job)
{
	enum { BURST = 16 };
	int round, i, v, tag;

	TT_EXPECT(!warm_up(job, job->world));
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < BURST && job->rank == 0; i++) {
			v = round * BURST + i;
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 1, i, job->world));
		}
		MP_OK(tutti_barrier(job->world));
		for (i = 0; i < BURST && job->rank == 1; i++) {
			tag = round % 3 ? (i * 5 + round) % BURST : i;
			TT_EXPECT(!take_early(job, tag, (i + round) % 2, round * BURST + tag));
		}
		MP_OK(tutti_barrier(job->world));
	}
	return say_kind(job);
}

static void early(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SPIN, .fn = early_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = early_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = early_body));
}

/* ---- errors leave the messages behind them alone ---- */

/* Blocking, or posted, perhaps before the message has come. */
static int receive(struct mp_job *job, void *buf, size_t count, enum tutti_datatype type, int i)
{
	struct tutti_request *req;
	int err;

	if (i % 2)
		return tutti_recv(buf, count, type, 1, 1, job->world, NULL);
	err = tutti_irecv(buf, count, type, 1, 1, job->world, NULL, &req);
	return err ? err : tutti_wait(&req);
}

static int errors_body(struct mp_job *job)
{
	char small[8] = "1234567", large[16] = "123456789012345";
	float number = 0;
	char got[16];
	int i;

	TT_EXPECT(!warm_up(job, job->world));
	for (i = 0; i < 20; i++) {
		if (job->rank == 1) {
			MP_OK(tutti_send(large, 16, TUTTI_UINT8, 0, 1, job->world));
			MP_OK(tutti_send(small, 8, TUTTI_UINT8, 0, 1, job->world));
			MP_OK(tutti_send(small, 4, TUTTI_UINT8, 0, 1, job->world));
			MP_OK(tutti_send(small, 8, TUTTI_UINT8, 0, 2, job->world));
			MP_OK(tutti_recv(got, 1, TUTTI_UINT8, 0, 3, job->world, NULL));
			continue;
		}
		memset(got, 'x', sizeof(got));
		MP_ERR(receive(job, got, 8, TUTTI_UINT8, i), -EMSGSIZE);
		TT_EXPECT(got[0] == 'x');
		MP_OK(receive(job, got, 16, TUTTI_UINT8, i));
		TT_EXPECT(!strcmp(got, "1234567") && got[8] == 'x');
		MP_ERR(receive(job, &number, 1, TUTTI_FLOAT32, i), -TUTTI_EMISMATCH);
		MP_OK(tutti_recv(got, 8, TUTTI_UINT8, 1, 2, job->world, NULL));
		MP_OK(tutti_send(got, 1, TUTTI_UINT8, 1, 3, job->world));
	}
	return 0;
}

static void errors(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = errors_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SPIN, .fn = errors_body));
}

/* ---- nothing else starves: a long message advances beside short ones of another pair ---- */

static int beside_body(struct mp_job *job)
{
	enum { MANY = 4 << 20 };
	struct tutti_request *req;
	char *buf = calloc(1, MANY);
	int v = 0, done = 0, i;

	if (job->rank == 2) {
		memset(buf, 3, MANY);
		MP_OK(tutti_send(buf, MANY, TUTTI_UINT8, 0, 1, job->world));
		free(buf);
		return 0;
	}
	if (job->rank == 0)
		MP_OK(tutti_irecv(buf, MANY, TUTTI_UINT8, 2, 1, job->world, NULL, &req));
	for (i = 0; i < 100000 && !done; i++) {
		if (job->rank == 0)
			MP_OK(tutti_request_get_status(i % 1000 == 999 ? req : NULL, &done));
		done = job->rank == 0 && i % 1000 == 999 && done;
		if (job->rank == 0)
			MP_OK(tutti_send(&done, 1, TUTTI_INT32, 1, 1, job->world));
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, !job->rank, 1, job->world, NULL));
		if (job->rank == 1) {
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, 0, 1, job->world));
			done = v;
		}
	}
	TT_EXPECT(done);
	if (job->rank == 0) {
		MP_OK(tutti_wait(&req));
		TT_EXPECT(buf[0] == 3 && buf[MANY - 1] == 3);
	}
	free(buf);
	return 0;
}

static void beside(void)
{
	TT_CHECK(!MP_RUN(.n = 3, .env = SHM " TUTTI_WAIT=spin", .fn = beside_body));
}

/* ---- threads ---- */

struct worker {
	struct mp_job *job;
	int id, failed;
};

static int ping(struct mp_job *job, int id)
{
	int i, v, peer = !job->rank;

	for (i = 0; i < 3000; i++) {
		v = i * 8 + id;
		if (job->rank == 0)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, peer, id, job->world));
		v = -1;
		MP_OK(tutti_recv(&v, 1, TUTTI_INT32, peer, id, job->world, NULL));
		TT_EXPECT(v == i * 8 + id);
		if (job->rank == 1)
			MP_OK(tutti_send(&v, 1, TUTTI_INT32, peer, id, job->world));
	}
	return 0;
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	w->failed = ping(w->job, w->id);
	return NULL;
}

static int threads_body(struct mp_job *job)
{
	struct worker w[3];
	pthread_t thread[3];
	int i, failed = 0;

	for (i = 0; i < 3; i++) {
		w[i] = (struct worker){.job = job, .id = i};
		TT_EXPECT(!pthread_create(&thread[i], NULL, run_worker, &w[i]));
	}
	for (i = 0; i < 3; i++) {
		pthread_join(thread[i], NULL);
		failed |= w[i].failed;
	}
	return failed;
}

static void threads(void)
{
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM, .fn = threads_body));
	TT_CHECK(!MP_RUN(.n = 2, .env = SHM " TUTTI_PROGRESS=thread", .fn = threads_body));
}

/* ---- the sender is killed while the receiver looks for its message, or sends to it ---- */

static void *die_later(void *arg)
{
	const struct mp_job *job = arg;

	mp_sleep_ms(*(const int *)job->arg);
	kill(getpid(), SIGKILL);
	return NULL;
}

static int death_body(struct mp_job *job)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	int v = 0, err = 0, peer = !job->rank;
	pthread_t thread;
	double start;

	TT_EXPECT(!warm_up(job, job->world));
	if (job->rank == 1)
		TT_EXPECT(!pthread_create(&thread, NULL, die_later, job));
	for (start = mp_now(); !err && mp_now() - start < 30;) {
		if (job->rank == 0)
			err = tutti_send(&v, 1, TUTTI_INT32, peer, 1, job->world);
		if (!err)
			err = tutti_recv(&v, 1, TUTTI_INT32, peer, 1, job->world, NULL);
		if (!err && job->rank == 1)
			err = tutti_send(&v, 1, TUTTI_INT32, peer, 1, job->world);
	}
	MP_ERR(err, -TUTTI_EPEER);
	MP_OK(tutti_comm_error(job->world, &info));
	TT_EXPECT(info.rank == 1 && strstr(info.text, "rank 1 on"));
	mp_leave(job);
	return 0;
}

static void death(void)
{
	int i, ms;

	for (i = 0; i < 6; i++) {
		ms = 5 + 3 * i;
		TT_CHECK(!MP_RUN(.n = 2, .env = i % 2 ? SPIN : SHM, .fn = death_body, .arg = &ms,
				 .killed = 1u << 1));
	}
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"order", order},   {"claims", claims},	  {"early", early}, {"errors", errors},
		{"beside", beside}, {"threads", threads}, {"death", death}, {NULL, NULL}};

	return tt_test_main("brief", tests, argc, argv);
}
