/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of one host between two processes: areas that are handed out, and the fence. */
#include "tests/test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/copy.h"
#include "lib/base/proc.h"
#include "lib/node/node_internal.h"

#define TWO 2
#define WAIT_MS 10000
#define WAYS (7 * TT_NODE_KINDS) /* of ordinary memory */

/* Further data that the two exchange. */
struct board {
	struct tt_node_card card[TWO];
	_Atomic int stage[TWO];
	_Atomic int word;
};

static void *shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void nap_ms(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&t, NULL);
}

static bool await(const _Atomic int *word, int value)
{
	uint64_t deadline = tt_deadline_ms(WAIT_MS);

	while (atomic_load(word) < value) {
		if (tt_passed(deadline))
			return false;
		sched_yield();
	}
	return true;
}

/* Both have come here so often. */
static bool meet(struct board *b, int me)
{
	return await(&b->stage[!me], atomic_fetch_add(&b->stage[me], 1) + 1);
}

static int join(struct board *b, int me, struct tt_node **node)
{
	unsigned can = TT_NODE_MAPS;

	TT_EXPECT(!tt_node_open(node));
	tt_node_card(*node, &b->card[me]);
	TT_EXPECT(meet(b, me));
	TT_EXPECT(!tt_node_attach(*node, !me, TWO, &b->card[!me], &can));
	TT_EXPECT(can == TT_NODE_MAPS);
	return 0;
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static bool lives(void *arg, int world)
{
	(void)arg;
	(void)world;
	return false;
}

static bool is_due(void *arg, uint64_t deadline)
{
	(void)arg;
	return tt_passed(deadline);
}

static int group(struct tt_node *node, int me, uint64_t uid, int ms, struct tt_node_group **g)
{
	static const int world[] = {0, 1};
	struct tt_node_params p = {.uid = uid,
				   .rank = me,
				   .size = TWO,
				   .world = world,
				   .deadline = tt_deadline_ms(ms),
				   .due = is_due,
				   .failed = never,
				   .gone = lives};

	return tt_node_group_new(node, &p, g);
}

/* The deadline has passed, and does not count; only then the home makes the area. */
static bool is_excused(void *arg, uint64_t deadline)
{
	struct board *b = arg;

	atomic_store(&b->word, tt_passed(deadline));
	return false;
}

static int excused_body(int me, int n, void *arg)
{
	static const int world[] = {0, 1};
	struct board *b = arg;
	struct tt_node_params p = {.uid = 7,
				   .rank = me,
				   .size = n,
				   .world = world,
				   .deadline = 1,
				   .due = is_excused,
				   .failed = never,
				   .gone = lives,
				   .arg = b};
	struct tt_node_group *g;
	struct tt_node *node;

	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(me || await(&b->word, 1));
	TT_EXPECT(!tt_node_group_new(node, &p, &g));
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void two(tt_rank_fn *fn, unsigned killed)
{
	struct board *b = shared(sizeof(*b));

	TT_REQUIRE(b != NULL);
	TT_CHECK(!tt_run_ranks(TWO, fn, b, 4 * WAIT_MS, killed));
	munmap(b, sizeof(*b));
}

/* Is anything of an area still there? */
static bool hands_out(const struct tt_node *node)
{
	int i;

	for (i = 0; i < SEG_AREAS; i++)
		if (node->home[i].area || atomic_load(&node->seg->home[i].uid))
			return true;
	return false;
}

/* The home frees a communicator before the other has come for its area. */
static int left_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	int fds, turn, before = tt_open_fds();

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	fds = tt_open_fds();
	for (turn = 1; turn <= 2; turn++) {
		if (me) {
			TT_EXPECT(await(&b->word, turn));
			TT_EXPECT(!group(node, me, 7, WAIT_MS, &g));
			tt_node_group_free(g);
			TT_EXPECT(meet(b, me));
		} else {
			TT_EXPECT(!group(node, me, 7, WAIT_MS, &g));
			tt_node_group_free(g); /* does not wait for the other */
			TT_EXPECT(hands_out(node));
			atomic_store(&b->word, turn);
			TT_EXPECT(meet(b, me));
			tt_node_sweep(node);
			TT_EXPECT(!hands_out(node));
		}
		TT_EXPECT(tt_open_fds() == fds);
	}
	/* an area without users ends with the node */
	if (!me) {
		TT_EXPECT(!group(node, me, 8, WAIT_MS, &g));
		tt_node_group_free(g);
	}
	TT_EXPECT(meet(b, me));
	tt_node_close(node);
	TT_EXPECT(tt_open_fds() == before);
	return 0;
}

static void left(void)
{
	two(left_body, 0);
}

/* So many areas at once that there is no place for another. */
static int full_body(int me, int n, void *arg)
{
	struct tt_node_group *g[SEG_AREAS + 1];
	struct board *b = arg;
	struct tt_node *node;
	int i;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	for (i = 0; !me && i < SEG_AREAS; i++)
		TT_EXPECT(!group(node, me, (uint64_t)i + 1, WAIT_MS, &g[i]));
	if (!me)
		TT_EXPECT(group(node, me, SEG_AREAS + 1, WAIT_MS, &g[SEG_AREAS]) == -EMFILE);
	TT_EXPECT(meet(b, me));
	if (me)
		TT_EXPECT(group(node, me, SEG_AREAS + 1, 50, &g[SEG_AREAS]) == -ETIMEDOUT);
	for (i = 0; me && i < SEG_AREAS; i++)
		TT_EXPECT(!group(node, me, (uint64_t)i + 1, WAIT_MS, &g[i]));
	TT_EXPECT(meet(b, me));
	TT_EXPECT(!group(node, me, SEG_AREAS + 2, WAIT_MS, &g[SEG_AREAS]));
	for (i = 0; i <= SEG_AREAS; i++)
		tt_node_group_free(g[i]);
	TT_EXPECT(meet(b, me));
	tt_node_close(node);
	return 0;
}

static void full(void)
{
	two(full_body, 0);
}

/* A group in which rank 1 says that it touches buffers. */
static int touching(struct board *b, int me, struct tt_node **node, struct tt_node_group **g)
{
	TT_EXPECT(!join(b, me, node));
	TT_EXPECT(!group(*node, me, 1, WAIT_MS, g));
	if (me)
		atomic_store(&(*g)->area->rank[me].busy, 1);
	TT_EXPECT(meet(b, me));
	return 0;
}

/* No rank passes the fence while the other rank accesses buffers. */
static int fenced_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;

	(void)n;
	TT_EXPECT(!touching(b, me, &node, &g));
	if (me) {
		nap_ms(200);
		atomic_store(&b->word, 1);
		atomic_store(&g->area->rank[me].busy, 0);
	} else {
		tt_node_withdraw(g);
		TT_EXPECT(atomic_load(&b->word) == 1);
		atomic_store(&b->word, 2);
		tt_node_withdraw(g); /* once is enough */
	}
	TT_EXPECT(await(&b->word, 2));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void fenced(void)
{
	two(fenced_body, 0);
}

/* One that is stopped while it touches buffers will not do so later. */
static int stopped_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	uint64_t began;

	(void)n;
	TT_EXPECT(!touching(b, me, &node, &g));
	if (me) {
		raise(SIGSTOP);
		return 1;
	}
	began = tt_now_ns();
	tt_node_withdraw(g);
	TT_EXPECT(tt_proc_gone(g->peer[1]->pid));
	TT_EXPECT(tt_now_ns() - began > TT_SEC);
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void stopped(void)
{
	two(stopped_body, 1u << 1);
}

/* Each publishes a word; rank 0's result is at an address where nothing is. */
static int publish(struct tt_node_group *g, int me, uint32_t *word, uint32_t *result)
{
	g->plain = true;
	TT_EXPECT(tt_node_publish(g, 1, TT_NODE_INPUT, word, sizeof(*word), NULL, TT_NODE_COPIES) ==
		  sizeof(*word));
	if (!me) {
		result = shared(4096);
		TT_EXPECT(result && !munmap(result, 4096));
	}
	TT_EXPECT(!tt_node_publish(g, 1, TT_NODE_RESULT, result, sizeof(*result), NULL,
				   TT_NODE_COPIES));
	tt_node_signal(g, 1, 1, 1);
	return 0;
}

/* Names the rank whose memory cannot be reached; no rank reaches withdrawn memory. */
static int reach_body(int me, int n, void *arg)
{
	struct tt_node_reduce r = {
		.datatype = TUTTI_UINT32, .op = TUTTI_SUM, .elem = sizeof(uint32_t)};
	struct tt_node_ref in = {TT_NODE_INPUT, 0}, out = {TT_NODE_RESULT, 0};
	uint32_t word = (uint32_t)me + 1, result = 7;
	struct tt_node_count count = {0};
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	int gone = -1;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	TT_EXPECT(!publish(g, me, &word, &result));
	TT_EXPECT(meet(b, me));
	if (me) {
		TT_EXPECT(!tt_node_pull_reduce(g, 1, in, 1, out, 4, &r, &count, &gone));
		TT_EXPECT(result == 3 && count.reduced == 4);
		TT_EXPECT(tt_node_pull_reduce(g, 1, in, 0, out, 4, &r, &count, &gone) < 0);
		TT_EXPECT(gone == 0);
		gone = -1;
		TT_EXPECT(tt_node_push(g, 1, 0, out, &word, 4, &count, &gone) < 0 && gone == 0);
	}
	TT_EXPECT(meet(b, me));
	if (!me)
		tt_node_withdraw(g);
	TT_EXPECT(meet(b, me));
	if (me) {
		gone = -1;
		result = 9;
		TT_EXPECT(tt_node_pull_copy(g, 1, 0, in, &result, 4, &count, &gone) == -EPIPE);
		TT_EXPECT(gone == 0 && result == 9 && !atomic_load(&g->area->rank[1].busy));
	}
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void reach(void)
{
	two(reach_body, 0);
}

#define NAPS 20000

/* Sleep until the other has reached a turn; a wake-up that is lost shows as a time-out. */
static bool nap(struct tt_node *node, struct tt_node_group *g, int peer, uint64_t turn)
{
	struct pollfd p = {.events = POLLIN};
	bool differs, reached;
	int left = (int)(turn * 2654435761u % 6000), n;

	while (left--)
		if (tt_node_reached(g, peer, turn, 1, turn, &differs))
			return true;
	do {
		p.fd = tt_node_lie_down(node, true);
		reached = tt_node_reached(g, peer, turn, 1, turn, &differs);
		n = reached ? 1 : poll(&p, 1, 2000);
		tt_node_get_up(node);
	} while (!reached && n > 0);
	return reached;
}

static int naps_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	uint64_t turn;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	for (turn = 1; turn <= NAPS; turn++) {
		if (!me)
			tt_node_signal(g, turn, 1, turn);
		TT_EXPECT(nap(node, g, !me, turn));
		if (me)
			tt_node_signal(g, turn, 1, turn);
	}
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void naps(void)
{
	two(naps_body, 0);
}

/*
 * Inputs from .. to - 1 of 16 KiB, while its reader takes so many ticks for a KiB: how many stay
 * where they are.
 */
static int left_there(struct tt_node_group *g, char *input, uint32_t out, uint32_t read, int from,
		      int to)
{
	struct node_rank *reader = &g->area->rank[!g->rank];
	int n = 0, k;

	for (; from < to; from++) {
		for (k = 0; k < NODE_MEASURES; k++) {
			atomic_store(&reader->out[k], out);
			atomic_store(&reader->read[k], read);
		}
		n += !tt_node_publish(g, 1, TT_NODE_INPUT, input, 16 << 10, NULL, TT_NODE_ONE_WAY);
	}
	return n;
}

/* An owner copies an input or leaves it, as is faster; trials, of 8, are at 8, 256, 1024, 2048. */
static int choice_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	static char input[16 << 10];

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	g->plain = true;
	if (!me) {
		atomic_store(&g->area->rank[1].reaches, true);
		TT_EXPECT(left_there(g, input, 1000, 2, 0, 8) == 0);
		TT_EXPECT(left_there(g, input, 1000, 2, 8, 16) == 8);
		TT_EXPECT(left_there(g, input, 1000, 2, 16, 256) == 240);
		TT_EXPECT(left_there(g, input, 2, 1000000, 256, 264) == 0);
		TT_EXPECT(left_there(g, input, 2, 1000000, 264, 1024) == 0);
		TT_EXPECT(left_there(g, input, 2, 1000000, 1024, 1032) == 8);
		TT_EXPECT(left_there(g, input, 2, 1000000, 1032, 2048) == 0);
		TT_EXPECT(left_there(g, input, 1000, 2, 2048, 3000) == 952);
		g->plain = false; /* nobody may read it */
		TT_EXPECT(left_there(g, input, 1000, 2, 0, 20) == 0);
	}
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

/* Reductions from .. to - 1 of 64 KiB, each of which takes so many ticks for a KiB: straight ones.
 */
static int kept(const struct tt_node *node)
{
	struct tt_list *l, *tmp;
	int n = 0;

	tt_list_each(l, tmp, &node->kept) n++;
	return n;
}

static bool is_new(const struct tt_node_group *g)
{
	const struct node_rank *r = &g->area->rank[g->rank];

	return !atomic_load(&r->done) && !atomic_load(&r->called[1]) &&
	       !atomic_load(&r->slot[0].flag) && !atomic_load(&r->slot[1].flag) &&
	       !r->slot[1].fprint && !g->area->dropped && !g->area->left;
}

static void use(struct tt_node_group *g)
{
	struct node_rank *r = &g->area->rank[g->rank];

	atomic_store(&r->done, 3);
	atomic_store(&r->called[1], 1);
	atomic_store(&r->slot[0].flag, 1);
	atomic_store(&r->slot[1].flag, 2);
	r->slot[1].fprint = 3;
}

/* The next communicator of the same ranks gets the area that all of them have left, as new. */
static int again_body(int me, int n, void *arg)
{
	struct tt_node_group *g, *other;
	struct board *b = arg;
	struct tt_node *node;
	struct node_area *at;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	at = g->area;
	use(g);
	tt_node_group_leave(g);
	TT_EXPECT(meet(b, me));
	TT_EXPECT(!group(node, me, 2, WAIT_MS, &g));
	TT_EXPECT(g->area == at && is_new(g));
	TT_EXPECT(meet(b, me));
	use(g);
	if (!me) /* the other one has not left it */
		tt_node_group_leave(g);
	TT_EXPECT(!group(node, me, 3, WAIT_MS, &other));
	TT_EXPECT(other->area != at && is_new(other));
	TT_EXPECT(meet(b, me));
	if (me)
		tt_node_group_leave(g);
	TT_EXPECT(meet(b, me));
	TT_EXPECT(!group(node, me, 4, WAIT_MS, &g));
	TT_EXPECT(g->area == at && is_new(g));
	/* after a failure of one rank it is not used again, and both unmap it */
	TT_EXPECT(meet(b, me));
	me ? tt_node_group_leave(g) : tt_node_group_free(g);
	me ? tt_node_group_free(other) : tt_node_group_leave(other);
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(kept(node) == !me);
	TT_EXPECT(!group(node, me, 5, WAIT_MS, &g));
	TT_EXPECT(is_new(g) && kept(node) == !me);
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	TT_EXPECT(meet(b, me));
	tt_node_close(node);
	return 0;
}

static void again(void)
{
	two(again_body, 0);
}

/* The home is ahead: it gives new uids to kept areas, and frees them, before the other comes. */
static int ahead_body(int me, int n, void *arg)
{
	struct tt_node_group *g, old = {.size = TWO};
	struct node_peer *peer[TWO];
	struct board *b = arg;
	struct tt_node *node;
	uint64_t uid;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	tt_node_group_leave(g);
	TT_EXPECT(meet(b, me));
	for (uid = 2; !me && uid < 12; uid++) {
		TT_EXPECT(!group(node, me, uid, WAIT_MS, &g));
		old = *g;
		memcpy(peer, g->peer, sizeof(peer));
		old.peer = peer;
		tt_node_group_leave(g);
	}
	if (!me) { /* as if the other had mapped and left it just now */
		atomic_store(&old.area->attached, TWO);
		atomic_store(&old.area->left, TWO);
		TT_EXPECT(!tt_node_reuse(&old));
		atomic_store(&old.area->attached, 1);
		atomic_store(&old.area->left, 1);
	}
	TT_EXPECT(meet(b, me));
	for (uid = 2; me && uid < 12; uid++) {
		tt_node_sweep(node);
		TT_EXPECT(!group(node, me, uid, WAIT_MS, &g));
		tt_node_group_leave(g);
	}
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(!hands_out(node) && kept(node) <= 4);
	tt_node_close(node);
	return 0;
}

static void ahead(void)
{
	two(ahead_body, 0);
}

/* A few areas are kept, also of those that the other rank has not mapped yet. */
static int few_body(int me, int n, void *arg)
{
	struct tt_node_group *g[6];
	struct board *b = arg;
	struct tt_node *node;
	uint64_t i;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	for (i = 0; i < 6; i++)
		TT_EXPECT(!group(node, me, i + 1, WAIT_MS, &g[i]));
	TT_EXPECT(meet(b, me));
	for (i = 0; i < 6; i++)
		tt_node_group_leave(g[i]);
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(kept(node) == 4);
	TT_EXPECT(meet(b, me));
	for (i = 6; !me && i < 12; i++) {
		TT_EXPECT(!group(node, me, i + 1, WAIT_MS, &g[0]));
		tt_node_group_leave(g[0]); /* does not wait for the other */
	}
	TT_EXPECT(meet(b, me));
	for (i = 6; me && i < 12; i++) {
		TT_EXPECT(!group(node, me, i + 1, WAIT_MS, &g[0]));
		tt_node_group_leave(g[0]);
	}
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(meet(b, me));
	tt_node_sweep(node);
	TT_EXPECT(!hands_out(node) && kept(node) == 4);
	tt_node_close(node);
	return 0;
}

static void few(void)
{
	two(few_body, 0);
}

static int went_straight(struct tt_node_group *g, uint32_t ringed, uint32_t direct, int from,
			 int to)
{
	int n = 0, k;

	for (; from < to; from++) {
		unsigned way = tt_node_way(g, TT_NODE_KINDS - 1, 64 << 10);

		for (k = 0; k < WAYS; k++) {
			atomic_store(&g->area->rank[g->rank].first[k], ringed);
			atomic_store(&g->area->rank[g->rank].second[k], direct);
		}
		n += tt_node_goes_direct(g, &way);
	}
	return n;
}

static int went_back(struct tt_node_group *g, uint32_t kept, uint32_t back, int from, int to)
{
	int n = 0;

	for (; from < to; from++) {
		unsigned way = tt_node_mapped_way(g, 0, 64 << 10);

		atomic_store(&g->area->rank[g->rank].first[way - 1], kept);
		atomic_store(&g->area->rank[g->rank].second[way - 1], back);
		n += tt_node_mapped(g, &way, 64 << 10) == TT_MAPPED_BACK;
	}
	return n;
}

/* Results in memory that peers map are handed back if that is faster; needs no access to it. */
static int back_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	TT_EXPECT(!g->plain && !tt_node_mapped_way(g, 0, 8191) &&
		  !tt_node_mapped_way(g, TT_NODE_KINDS - 1, 8 << 20));
	TT_EXPECT(tt_node_mapped_way(g, 0, 8192) == (tt_hands_back() ? WAYS + 1 : 0));
	TT_EXPECT(tt_node_mapped_way(g, TT_NODE_KINDS - 1, (8 << 20) - 1) ==
		  (tt_hands_back() ? NODE_WAYS - TT_NODE_COPY_KINDS * 10 : 0));
	TT_EXPECT(!tt_node_copy_way(g, TT_NODE_TO_ALL, 1 << 20)); /* not readable */
	if (!me && tt_hands_back()) {
		TT_EXPECT(went_back(g, 1000, 910, 0, 8) == 0);
		TT_EXPECT(went_back(g, 1000, 910, 8, 16) == 8);
		TT_EXPECT(went_back(g, 1000, 910, 16, 256) == 0);
		TT_EXPECT(went_back(g, 1000, 890, 256, 264) == 8);
		TT_EXPECT(went_back(g, 1000, 890, 264, 1024) == 760);
		TT_EXPECT(went_back(g, 1000, 2000, 1024, 1032) == 0);
		TT_EXPECT(went_back(g, 1000, 2000, 1032, 2048) == 0);
	}
	TT_EXPECT(meet(b, me));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void back(void)
{
	two(back_body, 0);
}

static bool may_read(struct tt_node_group *g, int peer)
{
	uint64_t value;

	return !tt_shm_vm_try(g->peer[peer]->pid, &value, atomic_load(&g->area->rank[peer].word),
			      sizeof(value));
}

/* Reductions go the way that is faster for the slower rank that has measured it. */
static int ways_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	g->plain = true;
	TT_EXPECT(!tt_node_way(g, 0, 8191) && tt_node_way(g, 0, 8192) == 1);
	TT_EXPECT(tt_node_way(g, TT_NODE_KINDS - 1, (1 << 20) - 1) == WAYS);
	TT_EXPECT(!tt_node_way(g, TT_NODE_KINDS - 1, 1 << 20));
	TT_EXPECT(meet(b, me));
	/* reductions through rings show whether it could go straight */
	tt_node_went(g, 1, false, 64 << 10, 1000);
	TT_EXPECT(meet(b, me));
	TT_EXPECT(tt_node_is_reached(g) || !may_read(g, !me));
	if (!me) {
		atomic_store(&g->area->rank[1].reaches, true);
		TT_EXPECT(went_straight(g, 1000, 910, 0, 8) == 0);
		TT_EXPECT(went_straight(g, 1000, 910, 8, 16) == 8);
		TT_EXPECT(went_straight(g, 1000, 910, 16, 256) == 0); /* hardly faster */
		TT_EXPECT(went_straight(g, 1000, 890, 256, 264) == 8);
		TT_EXPECT(went_straight(g, 1000, 890, 264, 1024) == 760);
		TT_EXPECT(went_straight(g, 1000, 2000, 1024, 1032) == 0);
		TT_EXPECT(went_straight(g, 1000, 2000, 1032, 2048) == 0);
		atomic_store(&g->area->rank[1].second[WAYS - 4], 5000);
		TT_EXPECT(went_straight(g, 1000, 890, 2048, 2056) == 8);
		TT_EXPECT(went_straight(g, 1000, 890, 2056, 3072) == 1016);
		atomic_store(&g->area->rank[1].first[WAYS - 4], 1000);
		TT_EXPECT(went_straight(g, 1000, 890, 3072, 3080) == 0);
		TT_EXPECT(went_straight(g, 1000, 890, 3080, 4096) == 0);
		atomic_store(&g->area->rank[1].reaches, false);
		TT_EXPECT(went_straight(g, 1000, 890, 4096, 5120) == 0);
	}
	TT_EXPECT(meet(b, me));
	g->plain = false; /* nobody may read it */
	TT_EXPECT(!tt_node_way(g, 0, 64 << 10));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void ways(void)
{
	two(ways_body, 0);
}

/* How many of these copies the kernel makes, which is faster. */
static int copied(struct tt_node_group *g, int from, int to, int *asked)
{
	bool asks;
	int n = 0;

	for (; from < to; from++) {
		unsigned way = tt_node_copy_way(g, TT_NODE_SCATTERS, 64 << 10);

		atomic_store(&g->area->rank[g->rank].first[way - 1], 1000);
		atomic_store(&g->area->rank[g->rank].second[way - 1], 890);
		n += !tt_node_streams(g, &way, &asks);
		*asked += asks;
	}
	return n;
}

/* Copies are streamed until both ranks reach each other. */
static int copies_body(int me, int n, void *arg)
{
	struct board *b = arg;
	struct tt_node_group *g;
	struct tt_node *node;
	int asked = 0;

	(void)n;
	TT_EXPECT(!join(b, me, &node));
	TT_EXPECT(!group(node, me, 1, WAIT_MS, &g));
	g->plain = true;
	TT_EXPECT(!tt_node_copy_way(g, TT_NODE_TO_ALL, TT_NODE_SLOT));
	TT_EXPECT(!tt_node_copy_way(g, TT_NODE_TO_ALL, 32 << 20));
	if (!me && tt_hands_back()) {
		TT_EXPECT(tt_node_copy_way(g, TT_NODE_TO_ALL, TT_NODE_SLOT + 1) ==
			  NODE_WAYS - TT_NODE_COPY_KINDS * 10 + 1);
		TT_EXPECT(tt_node_copy_way(g, TT_NODE_EXCHANGES, (32 << 20) - 1) == NODE_WAYS);
		TT_EXPECT(copied(g, 0, 256, &asked) == 0 && asked == 2);
		atomic_store(&g->area->rank[0].reaches, false);
		atomic_store(&g->area->rank[1].reaches, true);
		TT_EXPECT(copied(g, 256, 264, &asked) == 0);
		atomic_store(&g->area->rank[0].reaches, true);
		TT_EXPECT(copied(g, 264, 1024, &asked) == 760);
		TT_EXPECT(copied(g, 1024, 1032, &asked) == 0);
		TT_EXPECT(copied(g, 1032, 2048, &asked) == 1016);
		atomic_store(&g->area->rank[0].reaches, false);
		TT_EXPECT(copied(g, 2048, 2056, &asked) == 0 && asked == 2);
		TT_EXPECT(copied(g, 2056, 3072, &asked) == 0 && asked == 3);
	}
	TT_EXPECT(meet(b, me));
	g->plain = false;
	TT_EXPECT(!tt_node_copy_way(g, TT_NODE_TO_ALL, 64 << 10));
	tt_node_group_free(g);
	tt_node_close(node);
	return 0;
}

static void copies(void)
{
	two(copies_body, 0);
}

static void excused(void)
{
	two(excused_body, 0);
}

static void choice(void)
{
	two(choice_body, 0);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {
		{"left", left},	    {"full", full},	  {"fenced", fenced}, {"stopped", stopped},
		{"reach", reach},   {"naps", naps},	  {"choice", choice}, {"ways", ways},
		{"copies", copies}, {"again", again},	  {"few", few},	      {"back", back},
		{"ahead", ahead},   {"excused", excused}, {NULL, NULL},
	};

	return tt_test_main("node_memory", tests, argc, argv);
}
