/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire distinguishes notes of the current connection from those of earlier ones. Window
 * operations distinguish a peer that ends from one that refuses. Threads that sleep are woken when
 * they can go on.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/rma/rma.h"
#include "lib/wire/wire_internal.h"
#include "tests/test.h"

/* ---- a slot's note ---- */

static void tokens(void)
{
	static const int peers[] = {0, 1, 63, 64, (1 << TT_TOKEN_RANK_BITS) - 1};
	static const int slots[] = {0, 1, TT_SLOTS_MAX - 1};
	struct tt_wire wire = {.params.nranks = 1 << TT_TOKEN_RANK_BITS};
	struct tt_chan chan = {.wire = &wire};
	int i, k, slot;
	uint32_t token;

	wire.chan = calloc((size_t)wire.params.nranks, sizeof(struct tt_chan *));
	TT_REQUIRE(wire.chan != NULL);
	for (i = 0; i < 15; i++) {
		chan.peer = peers[i / 3];
		wire.chan[chan.peer] = &chan;
		for (k = 0; k < 100; k++) {
			chan.generation = (uint32_t)k;
			token = tt_slot_token(&chan, slots[i % 3]);
			TT_CHECK(token & TT_TOKEN_SLOT);
			TT_CHECK(token == tt_slot_token(&chan, 0) + (uint32_t)slots[i % 3]);
			TT_CHECK(tt_slot_chan(&wire, token, &slot) == &chan &&
				 slot == slots[i % 3]);
			chan.generation++;
			TT_CHECK(!tt_slot_chan(&wire, token, &slot));
			chan.generation += 30; /* 31 later */
			TT_CHECK(!tt_slot_chan(&wire, token, &slot));
		}
		wire.chan[chan.peer] = NULL;
		TT_CHECK(!tt_slot_chan(&wire, token, &slot));
	}
	wire.params.nranks = 64;
	chan.peer = 64; /* no rank */
	TT_CHECK(!tt_slot_chan(&wire, tt_slot_token(&chan, 0), &slot));
	free(wire.chan);
}

#define RUN 256
#define SINGLE 3

/*
 * Runs of tokens, such as those of a window, and single ones, such as those of messages, by turns:
 * the table does not grow, and no token of the last turns is found.
 */
static void runs(void)
{
	struct tt_bell bell[RUN], *bells[RUN];
	uint32_t first = 0, last, single[SINGLE];
	struct tt_wire wire = {0};
	int i, k;

	for (i = 0; i < RUN; i++)
		bells[i] = &bell[i];
	for (k = 0; k < 5000; k++) {
		last = first;
		TT_REQUIRE(!tt_wire_tokens_new(&wire, bells, RUN, &first));
		for (i = 0; i < RUN; i++) {
			TT_CHECK(tt_token_find(&wire, first + (uint32_t)i)->target == bells[i]);
			TT_CHECK(!k || !tt_token_find(&wire, last + (uint32_t)i));
		}
		for (i = 0; i < k % 2 * SINGLE; i++)
			TT_CHECK(!tt_token_new(&wire, TT_TOKEN_XFER, bells, &single[i]));
		for (i = 0; i < RUN; i++)
			tt_wire_token_free(&wire, first + (uint32_t)i);
		for (i = 0; i < k % 2 * SINGLE; i++)
			tt_token_free(&wire, single[i]);
		for (i = 0; i < SINGLE; i++) {
			TT_CHECK(!tt_token_new(&wire, TT_TOKEN_XFER, bells, &single[i]));
			tt_token_free(&wire, single[i]);
		}
	}
	TT_CHECK(wire.ntokens <= 4 * RUN);
	free(wire.token);
}

/* ---- a channel of this process to itself ---- */

static struct tt_env env;

static bool on_late(void *arg, int peer, const struct tt_key *key, uint64_t fprint, uint32_t len)
{
	(void)arg;
	(void)peer;
	(void)key;
	(void)fprint;
	(void)len;
	return false;
}

static void on_early(void *arg, int peer, const struct tt_key *key, uint64_t fprint, bool offer)
{
	++*(int *)arg;
}

static void on_fenced(void *arg, int peer, bool mine, uint64_t comm)
{
}

static struct tt_wire *new_wire(int *came)
{
	struct tt_wire_params params = {.env = &env,
					.nranks = 1,
					.local_addr = "127.0.0.1",
					.early = on_early,
					.late = on_late,
					.fenced = on_fenced,
					.arg = came};
	struct tt_wire *wire;

	setenv("TUTTI_TRANSPORT", "shm", 1); /* one rank: self alone is opened */
	if (tt_env_load(&env))
		return NULL;
	return tt_wire_open(&params, &wire) ? NULL : wire;
}

static bool reach_self(struct tt_wire *wire)
{
	const struct tt_way *way;
	bool waits = false;
	int i, err = -EAGAIN;

	for (i = 0; i < 100 && err == -EAGAIN; i++) {
		tt_wire_progress(wire);
		err = tt_wire_reach(wire, 0, &waits, &way);
	}
	return !err;
}

/* Rings the note as a peer does; how many messages have come of it. */
static int ring(struct tt_wire *wire, uint32_t note, int *came)
{
	struct tt_chan *chan = wire->chan[0];
	struct tt_rma rma = {.note = note, .flags = TT_RMA_NOTE};
	int before = *came, i;

	if (chan->ep->ops->put(chan->ep, &rma) < 0)
		return -1;
	for (i = 0; i < 10; i++)
		tt_wire_progress(wire);
	return *came - before;
}

static void write_head(struct tt_chan *chan, int slot, uint32_t seq)
{
	struct tt_eager_head *head = (void *)(chan->slots + (size_t)slot * chan->slot_size);

	*head = (struct tt_eager_head){.key = {.comm = 7, .seq = seq}};
}

/* A put over a closed connection rings when the next connection already exists. */
static void stale_note(void)
{
	struct tt_chan *chan;
	struct tt_wire *wire;
	uint32_t old, now;
	int came = 0;

	wire = new_wire(&came);
	TT_REQUIRE(wire != NULL);
	tt_wire_lock(wire);
	TT_REQUIRE(reach_self(wire));
	chan = wire->chan[0];
	old = tt_slot_token(chan, 3);
	write_head(chan, 3, 1);
	TT_CHECK(ring(wire, old, &came) == 1);

	tt_chan_fence(chan, 7, "the test says so");
	TT_CHECK(chan->state == TT_CHAN_CLOSED);
	TT_REQUIRE(reach_self(wire));
	write_head(chan, 3, 2);
	now = tt_slot_token(chan, 3);
	TT_CHECK(old != now && ring(wire, old, &came) == 0);
	TT_CHECK(ring(wire, now, &came) == 1);
	tt_wire_unlock(wire);
	tt_wire_close(wire);
	tt_env_free(&env);
}

/*
 * A device answers -EACCES or -EINVAL for a rank that ends, if the rank's memory is unregistered
 * before its queue pair is destroyed; shared memory answers -ESTALE. When that happens cannot be
 * chosen.
 */
static void refusals(void)
{
	TT_CHECK(tt_win_lost_status(0) == 0);
	TT_CHECK(tt_win_lost_status(-EACCES) == -TUTTI_EPEER);
	TT_CHECK(tt_win_lost_status(-EINVAL) == -TUTTI_EPEER);
	TT_CHECK(tt_win_lost_status(-ESTALE) == -TUTTI_EPEER);
	TT_CHECK(tt_win_lost_status(-EIO) == -TUTTI_EPEER);
	TT_CHECK(tt_win_lost_status(-EPIPE) == -TUTTI_EPEER);
	TT_CHECK(tt_win_lost_status(-EFAULT) == -EFAULT);
	TT_CHECK(tt_win_lost_status(-TUTTI_EABORTED) == -TUTTI_EABORTED);
	TT_CHECK(tt_win_status(-EACCES) == -EACCES);
	TT_CHECK(tt_win_status(-EINVAL) == -EINVAL);
	TT_CHECK(tt_win_status(-ESTALE) == -TUTTI_EPEER);
}

/* ---- threads that sleep ---- */

struct sleep {
	struct tt_wire *wire;
	pthread_t thread;
	atomic_bool ready;
	atomic_int rounds; /* sleeps that have ended */
};

static bool is_ready(void *arg)
{
	return atomic_load(&((struct sleep *)arg)->ready);
}

static void *sleeps(void *arg)
{
	struct sleep *s = arg;

	tt_wire_lock(s->wire);
	tt_wire_enter(s->wire);
	tt_wire_unlock(s->wire);
	while (!is_ready(s)) {
		tt_wire_sleep(s->wire, 20 * TT_SEC, is_ready, s);
		atomic_fetch_add(&s->rounds, 1);
	}
	tt_wire_lock(s->wire);
	tt_wire_quit(s->wire);
	tt_wire_unlock(s->wire);
	return NULL;
}

static uint64_t slept(struct tt_wire *wire)
{
	uint64_t n;

	tt_wire_lock(wire);
	n = tt_wire_stats(wire)->sleeps;
	tt_wire_unlock(wire);
	return n;
}

#define AWAIT(cond)                                                                                \
	do {                                                                                       \
		int tries = 0;                                                                     \
		while (!(cond) && tries++ < 10000)                                                 \
			usleep(1000);                                                              \
		TT_CHECK(cond);                                                                    \
	} while (0)

/* A thread that polls wakes a sleeper when the sleeper is ready, or by events after it has left. */
static void sleepers(void)
{
	struct sleep s = {0};
	struct tt_rma rma = {.flags = TT_RMA_NOTE};
	int came = 0, i;

	s.wire = new_wire(&came);
	TT_REQUIRE(s.wire != NULL);
	tt_wire_lock(s.wire);
	TT_REQUIRE(reach_self(s.wire));
	tt_wire_unlock(s.wire);
	TT_REQUIRE(!pthread_create(&s.thread, NULL, sleeps, &s));
	AWAIT(slept(s.wire) == 1);
	for (i = 0; i < 50; i++) {
		tt_wire_lock(s.wire);
		tt_wire_progress(s.wire);
		tt_wire_wake_ready(s.wire);
		tt_wire_leave(s.wire);
		tt_wire_unlock(s.wire);
		usleep(1000);
	}
	TT_CHECK(atomic_load(&s.rounds) == 0 && slept(s.wire) == 1);
	tt_wire_lock(s.wire);
	rma.note = tt_slot_token(s.wire->chan[0], 3);
	TT_CHECK(s.wire->chan[0]->ep->ops->put(s.wire->chan[0]->ep, &rma) >= 0);
	tt_wire_unlock(s.wire);
	AWAIT(atomic_load(&s.rounds) > 0);
	tt_wire_lock(s.wire);
	tt_wire_progress(s.wire);
	tt_wire_leave(s.wire);
	atomic_store(&s.ready, true);
	tt_wire_wake_ready(s.wire);
	tt_wire_unlock(s.wire);
	pthread_join(s.thread, NULL);
	tt_wire_close(s.wire);
	tt_env_free(&env);
}

/* While a thread polls, events wake no other; when it quits without taking them, they do. */
static void one_polls(void)
{
	struct sleep s = {0};
	struct tt_rma rma = {.flags = TT_RMA_NOTE};
	int came = 0;

	s.wire = new_wire(&came);
	TT_REQUIRE(s.wire != NULL);
	tt_wire_lock(s.wire);
	TT_REQUIRE(reach_self(s.wire));
	tt_wire_enter(s.wire);
	tt_wire_unlock(s.wire);
	TT_REQUIRE(!pthread_create(&s.thread, NULL, sleeps, &s));
	AWAIT(slept(s.wire) == 1);
	tt_wire_lock(s.wire);
	rma.note = tt_slot_token(s.wire->chan[0], 3);
	TT_CHECK(s.wire->chan[0]->ep->ops->put(s.wire->chan[0]->ep, &rma) >= 0);
	tt_wire_unlock(s.wire);
	usleep(20000);
	TT_CHECK(atomic_load(&s.rounds) == 0);
	tt_wire_lock(s.wire);
	tt_wire_quit(s.wire);
	tt_wire_unlock(s.wire);
	AWAIT(atomic_load(&s.rounds) > 0);
	tt_wire_lock(s.wire);
	atomic_store(&s.ready, true);
	tt_wire_wake(s.wire);
	tt_wire_unlock(s.wire);
	pthread_join(s.thread, NULL);
	tt_wire_close(s.wire);
	tt_env_free(&env);
}

/* Waking a sleeper once more, before it has run, takes no system call. */
static void one_write(void)
{
	struct sleep s = {0};
	uint64_t writes = 0;
	int came = 0;

	s.wire = new_wire(&came);
	TT_REQUIRE(s.wire != NULL);
	TT_REQUIRE(!pthread_create(&s.thread, NULL, sleeps, &s));
	AWAIT(slept(s.wire) == 1);
	tt_wire_lock(s.wire);
	atomic_store(&s.ready, true);
	tt_wire_wake(s.wire);
	tt_wire_started(s.wire);
	tt_wire_unlock(s.wire);
	pthread_join(s.thread, NULL);
	TT_CHECK(read(s.wire->wake_fd, &writes, sizeof(writes)) == sizeof(writes));
	TT_CHECK(writes == 1);
	tt_wire_close(s.wire);
	tt_env_free(&env);
}

/* A thread that is woken soon wakes by itself, after its first wake-up without a system call. */
static void soon(void)
{
	struct sleep s = {0};
	int came = 0;

	s.wire = new_wire(&came);
	TT_REQUIRE(s.wire != NULL);
	TT_REQUIRE(!pthread_create(&s.thread, NULL, sleeps, &s));
	AWAIT(slept(s.wire) == 1);
	tt_wire_lock(s.wire);
	tt_wire_wake_soon(s.wire);
	TT_CHECK(s.wire->soon_fd >= 0);
	tt_wire_unlock(s.wire);
	AWAIT(atomic_load(&s.rounds) == 1 && slept(s.wire) == 2);
	tt_wire_lock(s.wire);
	tt_wire_wake_soon(s.wire);
	tt_wire_wake_soon(s.wire);
	tt_wire_started(s.wire);
	TT_CHECK(s.wire->soon && !atomic_load(&s.wire->signalled));
	tt_wire_unlock(s.wire);
	AWAIT(atomic_load(&s.rounds) == 2 && slept(s.wire) == 3); /* and sleeps again */
	tt_wire_lock(s.wire);
	TT_CHECK(!s.wire->soon);
	atomic_store(&s.ready, true);
	tt_wire_wake_soon(s.wire);
	tt_wire_unlock(s.wire);
	pthread_join(s.thread, NULL);
	tt_wire_lock(s.wire);
	tt_wire_wake_soon(s.wire); /* none sleeps */
	TT_CHECK(!s.wire->soon);
	tt_wire_unlock(s.wire);
	tt_wire_close(s.wire);
	tt_env_free(&env);
}

static atomic_bool held, let_go;

static void hold(int sig)
{
	atomic_store(&held, true);
	while (!atomic_load(&let_go))
		usleep(1000);
}

/*
 * Two threads sleep and are woken, and one of them does not run yet: the other gives way to it. It
 * had its sleeps ended at once by the same signal before, as fast as it could.
 */
static void one_signal(void)
{
	struct sigaction action = {.sa_handler = hold}, before;
	struct sleep s[2] = {{0}};
	struct tt_wire *wire;
	int came = 0, i;

	wire = new_wire(&came);
	TT_REQUIRE(wire != NULL && !sigaction(SIGUSR1, &action, &before));
	for (i = 0; i < 2; i++) {
		s[i].wire = wire;
		TT_REQUIRE(!pthread_create(&s[i].thread, NULL, sleeps, &s[i]));
		AWAIT(slept(wire) == (uint64_t)i + 1);
	}
	TT_CHECK(!pthread_kill(s[1].thread, SIGUSR1));
	AWAIT(atomic_load(&held));
	tt_wire_wake(wire);
	AWAIT(atomic_load(&s[0].rounds) >= 50);
	TT_CHECK(slept(wire) <= 3);
	atomic_store(&let_go, true);
	AWAIT(atomic_load(&s[1].rounds) > 0);
	tt_wire_lock(wire);
	atomic_store(&s[0].ready, true);
	atomic_store(&s[1].ready, true);
	tt_wire_wake(wire);
	tt_wire_unlock(wire);
	for (i = 0; i < 2; i++)
		pthread_join(s[i].thread, NULL);
	sigaction(SIGUSR1, &before, NULL);
	tt_wire_close(wire);
	tt_env_free(&env);
}

static const struct tt_test tests[] = {{"tokens", tokens},
				       {"runs", runs},
				       {"stale_note", stale_note},
				       {"refusals", refusals},
				       {"sleepers", sleepers},
				       {"one_polls", one_polls},
				       {"one_write", one_write},
				       {"one_signal", one_signal},
				       {"soon", soon},
				       {NULL, NULL}};

int main(int argc, char **argv)
{
	return tt_test_main("wire", tests, argc, argv);
}
