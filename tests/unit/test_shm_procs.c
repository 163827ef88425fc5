/* SPDX-License-Identifier: BSD-3-Clause */
/* Transport shm between processes (and between threads that have a transport each, for TSan). */
#include "tests/unit/test_shm.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "lib/base/hash.h"
#include "transports/shm/shm.h"

#define PINGS 100000
#define NAPS 10000
#define ARMS 30000
#define TEXT 48

/* Further data that two ranks exchange: memory shared before the fork. */
struct board {
	_Atomic int ready[2];
	struct end end[2];
	struct tt_rkey rkey[2];
	uint64_t addr[2];
	_Atomic int stage;
	_Atomic int rounds; /* to play; fewer where processors are too busy for them */
	uint64_t ns[2];
	pid_t pid; /* of rank 1, which is to be killed */
};

static struct board *board_new(void)
{
	struct board *b =
		mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return b == MAP_FAILED ? NULL : b;
}

static void board_free(struct board *b)
{
	munmap(b, sizeof(*b));
}

struct rank {
	struct end end;
	struct memory mem;
	struct tt_rkey rkey; /* of the peer */
	uint64_t addr;
	int seen; /* notes waited for so far */
};

static bool wait_for(_Atomic int *flag, int value)
{
	uint64_t deadline = tt_now_ns() + WAIT_NS;
	int turn = 0;

	while (atomic_load(flag) < value) {
		if (++turn % 1000)
			continue;
		if (tt_passed(deadline))
			return false;
		sched_yield();
	}
	return true;
}

static bool up(struct rank *r)
{
	uint64_t deadline = tt_now_ns() + WAIT_NS;

	while (!r->end.up && !tt_passed(deadline))
		if (!end_poll(r->end.tp, &r->end, 64))
			sched_yield();
	return r->end.up == 1;
}

/* Open, register len bytes (zero: none), meet the other rank. */
static int join(struct board *b, int me, struct rank *r, size_t len, bool memfd)
{
	struct tt_tp *tp;

	memset(r, 0, sizeof(*r));
	TT_EXPECT(!tp_new((uint64_t)me + 1, &tp));
	TT_EXPECT(!end_open(&r->end, tp));
	if (len) {
		TT_EXPECT(!memory_new(&r->mem, tp, len, memfd, TT_ACCESS_READ | TT_ACCESS_WRITE));
		b->rkey[me] = r->mem.mr->rkey;
		b->addr[me] = addr_of(&r->mem);
	}
	b->end[me] = r->end;
	atomic_store(&b->ready[me], 1);
	TT_EXPECT(wait_for(&b->ready[!me], 1));
	r->rkey = b->rkey[!me];
	r->addr = b->addr[!me];
	TT_EXPECT(!end_connect(&r->end, &b->end[!me], me == 0));
	TT_EXPECT(up(r));
	return 0;
}

static void leave(struct rank *r)
{
	if (r->end.ep)
		tt_shm_tp.ep_close(r->end.ep);
	if (r->mem.map)
		memory_free(&r->mem);
	tt_shm_tp.close(r->end.tp);
}

/* Wait for the next note; sleep: on the descriptor, where a lost wake-up shows as a time-out. */
static int next_note(struct rank *r, bool sleep)
{
	int fd, idle = 0;
	uint64_t deadline = tt_now_ns() + WAIT_NS;
	struct pollfd p = {.events = POLLIN};

	for (;;) {
		if (r->end.notes > r->seen) { /* one may have come with UP */
			r->seen++;
			return 0;
		}
		if (end_poll(r->end.tp, &r->end, 1))
			continue;
		if (sleep && tt_shm_tp.arm(r->end.tp, &fd) == 0) {
			p.fd = fd;
			TT_EXPECT(poll(&p, 1, 5000) == 1);
		} else if (++idle % 1000 == 0) {
			sched_yield();
			TT_EXPECT(!tt_passed(deadline));
		}
	}
}

static void payload(char *text, int i, int from)
{
	snprintf(text, TEXT, "round %d from rank %d, %08x", i, from, (unsigned)i * 2654435761u);
}

static int play(struct rank *r, int me, struct board *b, bool sleep)
{
	char out[TEXT] = "", want[TEXT] = "";
	uint64_t random = (uint64_t)me + 77, late = tt_now_ns() + WAIT_NS;
	volatile int spin;
	int i, turn;

	for (i = 0; i < atomic_load(&b->rounds); i++) {
		if (!me && tt_passed(late))
			atomic_store(&b->rounds, i + 1); /* before rank 1 can have ended this one */
		for (turn = 0; turn < 2; turn++) {
			if (turn == me) {
				/* sleepers: answer at all sorts of moments of the other's arming */
				if (sleep)
					for (spin = (int)(tt_random(&random) % 4096); spin; spin--)
						;
				payload(out, i, me);
				TT_EXPECT(put(&r->end, out, TEXT, r->addr, &r->rkey, i) ==
					  TT_FINISHED);
			} else {
				TT_EXPECT(!next_note(r, sleep));
				payload(want, i, !me);
				TT_EXPECT((int)r->end.last_note == i);
				TT_EXPECT(!strcmp(r->mem.mem.addr, want));
			}
		}
	}
	return 0;
}

/* Go to a processor of our own: the scheduler likes to put a waker and its sleeper on one. */
static void use_own_processor(int me)
{
	cpu_set_t all, one;
	int i, n = 0;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	for (i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n++ == me)
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static int ping_pong_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct rank r;
	uint64_t t0;

	use_own_processor(me);
	TT_EXPECT(!join(b, me, &r, 4096, true));
	t0 = tt_now_ns();
	TT_EXPECT(!play(&r, me, b, false));
	b->ns[me] = tt_now_ns() - t0;
	leave(&r);
	return 0;
}

void test_ping_pong(void)
{
	struct board *b = board_new();

	TT_REQUIRE(b != NULL);
	b->rounds = PINGS;
	TT_CHECK(!tt_run_ranks(2, ping_pong_rank, b, 60000, 0));
	printf("  half a round trip: %.0f ns (%d-byte put, note, checked; %d rounds)\n",
	       (double)b->ns[0] / b->rounds / 2, TEXT, b->rounds);
	board_free(b);
}

static int sleeping_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct rank r;
	uint64_t t0;

	TT_EXPECT(!join(b, me, &r, 4096, true));
	t0 = tt_now_ns();
	TT_EXPECT(!play(&r, me, b, true));
	b->ns[me] = tt_now_ns() - t0;
	leave(&r);
	return 0;
}

void test_sleeping(void)
{
	struct board *b = board_new();

	TT_REQUIRE(b != NULL);
	b->rounds = NAPS;
	TT_CHECK(!tt_run_ranks(2, sleeping_rank, b, 60000, 0));
	printf("  half a round trip, sleeping: %.1f us\n", (double)b->ns[0] / b->rounds / 2e3);
	board_free(b);
}

/*
 * Rank 1 does nothing but arm and sleep; rank 0 sends, at all distances from the moment its last
 * note was taken, one note that nothing follows: if its wake-up is lost, rank 1 sleeps for good.
 */
static int arming_rank(int me, int n, void *arg)
{
	uint64_t random = 5, late = tt_now_ns() + WAIT_NS;
	struct board *b = arg;
	volatile int spin;
	struct rank r;
	int i;

	use_own_processor(me);
	TT_EXPECT(!join(b, me, &r, 0, false));
	for (i = 1; i <= atomic_load(&b->rounds); i++) {
		if (!me && tt_passed(late))
			atomic_store(&b->rounds, i); /* before rank 1 can have ended this one */
		if (me) {
			TT_EXPECT(!next_note(&r, true));
			atomic_store(&b->stage, i);
			continue;
		}
		for (spin = (int)(tt_random(&random) % 512); spin; spin--)
			;
		TT_EXPECT(put(&r.end, NULL, 0, 0, NULL, i) == TT_FINISHED);
		TT_EXPECT(wait_for(&b->stage, i));
	}
	leave(&r);
	return 0;
}

void test_arming(void)
{
	struct board *b = board_new();

	TT_REQUIRE(b != NULL);
	b->rounds = ARMS;
	TT_CHECK(!tt_run_ranks(2, arming_rank, b, 60000, 0));
	board_free(b);
}

struct thread_arg {
	struct board *b;
	int me, result;
};

static void *thread_main(void *arg)
{
	struct thread_arg *a = arg;

	a->result = sleeping_rank(a->me, 2, a->b);
	return NULL;
}

void test_sleeping_threads(void)
{
	struct board *b = board_new();
	struct thread_arg arg[2] = {{b, 0, 1}, {b, 1, 1}};
	pthread_t t[2];
	int i;

	TT_REQUIRE(b != NULL);
	b->rounds = NAPS;
	for (i = 0; i < 2; i++)
		TT_CHECK(!pthread_create(&t[i], NULL, thread_main, &arg[i]));
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	TT_CHECK(!arg[0].result && !arg[1].result);
	board_free(b);
}

#define BIG (3u << 20)

static int user_memory_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	uint64_t result = 1;
	struct tt_amo amo = {.op = TT_AMO_ADD, .result = &result};
	struct rank r;
	char *buf;
	size_t i;
	void *ptr;

	TT_EXPECT(!join(b, me, &r, BIG, false));
	buf = malloc(BIG);
	memset(buf, 'a' + me, BIG);
	TT_EXPECT(put(&r.end, buf, BIG, r.addr, &r.rkey, 5) == TT_FINISHED);
	TT_EXPECT(!next_note(&r, true) && r.end.last_note == 5);
	for (i = 0; i < BIG; i++)
		TT_EXPECT(((char *)r.mem.mem.addr)[i] == 'a' + !me);
	TT_EXPECT(get(&r.end, buf, BIG, r.addr, &r.rkey) == TT_FINISHED);
	for (i = 0; i < BIG; i++)
		TT_EXPECT(buf[i] == 'a' + me);
	TT_EXPECT(put(&r.end, buf, BIG, r.addr + 1, &r.rkey, 5) == -EFAULT);
	amo.remote = r.addr;
	amo.rkey = &r.rkey;
	TT_EXPECT(r.end.ep->ops->amo(r.end.ep, &amo) == -EOPNOTSUPP && result == 1);
	TT_EXPECT(r.end.ep->ops->map(r.end.ep, r.addr, 8, &r.rkey, &ptr) == -EOPNOTSUPP);
	TT_EXPECT(put(&r.end, NULL, 0, 0, NULL, 6) == TT_FINISHED); /* both are done */
	TT_EXPECT(!next_note(&r, true) && r.end.last_note == 6);
	free(buf);
	leave(&r);
	return 0;
}

void test_user_memory(void)
{
	struct board *b = board_new();
	struct tt_tp *tp;
	unsigned caps;

	TT_REQUIRE(b != NULL && !tp_new(9, &tp));
	caps = tp->caps;
	tt_shm_tp.close(tp);
	if (caps & TT_CAP_REG_ANY)
		TT_CHECK(!tt_run_ranks(2, user_memory_rank, b, 30000, 0));
	board_free(b);
	if (!(caps & TT_CAP_REG_ANY))
		TT_SKIP("process_vm_writev is not permitted here");
}

/* As containers do it: process_vm_readv and writev end in EPERM for this process from now on. */
static int forbid_process_vm(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(*code), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0);
}

/* Without process_vm a process reports it beforehand, and memory with a memfd still works. */
static int no_process_vm_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct memory m;
	struct rank r;

	TT_EXPECT(!forbid_process_vm());
	TT_EXPECT(!join(b, me, &r, 4096, true));
	TT_EXPECT(!(r.end.tp->caps & TT_CAP_REG_ANY));
	TT_EXPECT(memory_new(&m, r.end.tp, 4096, false, TT_ACCESS_WRITE) == -EOPNOTSUPP);
	memory_free(&m);
	TT_EXPECT(!play(&r, me, b, true));
	leave(&r);
	return 0;
}

/* One end may, the other may not: the latter refuses to connect, as it can't reach everything. */
static int half_process_vm_rank(int me, int n, void *arg)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	struct board *b = arg;
	struct tt_tp *tp;
	struct end e;

	if (me == 1)
		TT_EXPECT(!forbid_process_vm());
	TT_EXPECT(!tp_new((uint64_t)me + 1, &tp));
	TT_EXPECT(!end_open(&e, tp));
	b->end[me] = e;
	atomic_store(&b->ready[me], 1);
	TT_EXPECT(wait_for(&b->ready[!me], 1));
	if (me == 1) {
		TT_EXPECT(end_connect(&e, &b->end[0], false) == -EPERM);
		TT_EXPECT(!tutti_last_error(&info) && strstr(info.text, "ptrace"));
	} else {
		TT_EXPECT(!end_connect(&e, &b->end[1], true));
		end_poll(tp, &e, 1);
		TT_EXPECT(!e.up);
	}
	atomic_fetch_add(&b->stage, 1);
	TT_EXPECT(wait_for(&b->stage, 2));
	tt_shm_tp.ep_close(e.ep);
	tt_shm_tp.close(tp);
	return 0;
}

void test_no_process_vm(void)
{
	struct board *b = board_new();
	struct tt_tp *tp;
	unsigned caps;

	TT_REQUIRE(b != NULL && !tp_new(9, &tp));
	caps = tp->caps;
	tt_shm_tp.close(tp);
	b->rounds = 10;
	TT_CHECK(!tt_run_ranks(2, no_process_vm_rank, b, 30000, 0));
	memset(b, 0, sizeof(*b));
	if (caps & TT_CAP_REG_ANY)
		TT_CHECK(!tt_run_ranks(2, half_process_vm_rank, b, 30000, 0));
	board_free(b);
}

/* Rank 1 floods rank 0 and is killed in the middle; then rank 0 floods the dead. */
static int killed_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	uint64_t deadline;
	struct rank r;
	struct end again;
	int err, i;

	TT_EXPECT(!join(b, me, &r, BIG, true));
	if (me == 1) {
		b->pid = getpid();
		atomic_store(&b->stage, 1);
		for (i = 0;; i++)
			put(&r.end, r.mem.mem.addr, BIG, r.addr, &r.rkey, i);
	}
	TT_EXPECT(wait_for(&b->stage, 1));
	for (i = 0; i < 20; i++)
		TT_EXPECT(!next_note(&r, false));
	kill(b->pid, SIGKILL);
	deadline = tt_now_ns() + WAIT_NS;
	do
		err = put(&r.end, "x", 1, r.addr, &r.rkey, 1);
	while ((err == TT_FINISHED || err == -EAGAIN) && !tt_passed(deadline));
	TT_EXPECT(err == -EPIPE);
	while (!r.end.down && !tt_passed(deadline))
		end_poll(r.end.tp, &r.end, 64);
	TT_EXPECT(r.end.down == 1);
	tt_shm_tp.ep_close(r.end.ep);
	/* the ring of the dead is used again */
	TT_EXPECT(!end_open(&again, r.end.tp));
	r.end.ep = again.ep;
	leave(&r);
	return 0;
}

void test_killed_peer(void)
{
	struct board *b = board_new();

	TT_REQUIRE(b != NULL);
	TT_CHECK(!tt_run_ranks(2, killed_rank, b, 30000, 1u << 1));
	board_free(b);
}

/* Rank 1 is killed, most likely within a copy, and no rank waits for it for long. */
static int killed_writing_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct rank r;
	uint64_t t0;
	int i;

	TT_EXPECT(!join(b, me, &r, BIG, true));
	if (me == 1) {
		b->pid = getpid();
		atomic_store(&b->stage, 1);
		for (i = 0;; i++)
			put(&r.end, r.mem.mem.addr, BIG, r.addr, &r.rkey, -1);
	}
	TT_EXPECT(wait_for(&b->stage, 1));
	((struct shm_tp *)r.end.tp)->fence_ns = 3 * WAIT_NS; /* of one that is only stopped */
	usleep(5000);
	kill(b->pid, SIGKILL);
	t0 = tt_now_ns();
	TT_EXPECT(!tt_shm_tp.dereg(r.mem.mr));
	r.mem.mr = NULL;
	leave(&r);
	TT_EXPECT(tt_now_ns() - t0 < WAIT_NS);
	return 0;
}

void test_killed_while_writing(void)
{
	struct board *b = board_new();
	int i;

	TT_REQUIRE(b != NULL);
	for (i = 0; i < 5; i++) {
		memset(b, 0, sizeof(*b));
		TT_CHECK(!tt_run_ranks(2, killed_writing_rank, b, 30000, 1u << 1));
	}
	board_free(b);
}

/* Rank 1 marks that it copies into memory of rank 0, and runs on; 0 closes the connection. */
static int marked(struct board *b, int me, struct rank *r)
{
	const struct shm_ep *ep;

	TT_EXPECT(!join(b, me, r, BIG, true));
	ep = (struct shm_ep *)r->end.ep;
	if (me == 1)
		atomic_store(&((struct shm_tp *)r->end.tp)->head->copying[TT_TP_COPYING - 1],
			     (uint32_t)ep->pid);
	else
		((struct shm_tp *)r->end.tp)->fence_ns = 20 * TT_MS;
	atomic_fetch_add(&b->stage, 1);
	TT_EXPECT(wait_for(&b->stage, 2));
	return 0;
}

/* A process taken for dead may wait for a processor, and go on: it is ended. */
static int marked_dead_rank(int me, int n, void *arg)
{
	struct rank r;

	TT_EXPECT(!marked(arg, me, &r));
	if (me == 1)
		for (;;)
			pause();
	r.end.ep->dead = true;
	leave(&r);
	return 0;
}

/* The copy of a process that is not taken for dead is waited for. */
static int marked_alive_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct rank r;

	TT_EXPECT(!marked(b, me, &r));
	if (me == 1) {
		usleep(100000); /* longer than the fence of those taken for dead */
		atomic_store(&b->stage, 3);
		atomic_store(&((struct shm_tp *)r.end.tp)->head->copying[TT_TP_COPYING - 1], 0);
		TT_EXPECT(wait_for(&b->stage, 4));
	} else {
		tt_shm_tp.ep_close(r.end.ep);
		r.end.ep = NULL;
		TT_EXPECT(atomic_load(&b->stage) == 3);
		atomic_store(&b->stage, 4);
	}
	leave(&r);
	return 0;
}

void test_marked(void)
{
	struct board *b = board_new();

	TT_REQUIRE(b != NULL);
	TT_CHECK(!tt_run_ranks(2, marked_dead_rank, b, 30000, 1u << 1));
	memset(b, 0, sizeof(*b));
	TT_CHECK(!tt_run_ranks(2, marked_alive_rank, b, 30000, 0));
	board_free(b);
}

/* Fills the memory, waits, and checks whether any process still writes to it. */
static bool stays(char *p, size_t len)
{
	size_t i;

	memset(p, '-', len);
	usleep(3000);
	for (i = 0; i < len; i++)
		if (p[i] != '-')
			return false;
	return true;
}

/* Rank 1 writes without a pause; rank 0 takes the memory away by dereg, then by ep_close. */
static int fence_rank(int me, int n, void *arg)
{
	struct board *b = arg;
	struct rank r;
	int err, i;

	for (i = 0; i < 20; i++) {
		TT_EXPECT(!join(b, me, &r, BIG, i % 4 < 2));
		if (me == 1) {
			memset(r.mem.mem.addr, 'w', BIG);
			do
				err = put(&r.end, r.mem.mem.addr, BIG, r.addr, &r.rkey, -1);
			while (err == TT_FINISHED);
			TT_EXPECT(err == (i % 2 ? -EPIPE : -ESTALE));
		} else {
			while (*(volatile char *)r.mem.mem.addr != 'w')
				;
			usleep(500);
			if (i % 2) {
				tt_shm_tp.ep_close(r.end.ep);
				r.end.ep = NULL;
			} else {
				TT_EXPECT(!tt_shm_tp.dereg(r.mem.mr));
				r.mem.mr = NULL;
			}
			TT_EXPECT(stays(r.mem.mem.addr, BIG));
		}
		leave(&r);
		/* both have read the board and left before the next round writes to it */
		atomic_fetch_add(&b->stage, 1);
		TT_EXPECT(wait_for(&b->stage, 4 * i + 2));
		atomic_store(&b->ready[me], 0);
		atomic_fetch_add(&b->stage, 1);
		TT_EXPECT(wait_for(&b->stage, 4 * i + 4));
	}
	return 0;
}

void test_fences(void)
{
	struct board *b = board_new();
	struct tt_tp *tp;

	TT_REQUIRE(b != NULL && !tp_new(9, &tp));
	if (tp->caps & TT_CAP_REG_ANY)
		TT_CHECK(!tt_run_ranks(2, fence_rank, b, 60000, 0));
	tt_shm_tp.close(tp);
	board_free(b);
}
