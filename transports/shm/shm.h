/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transport shm: declarations for its files, and the layout of the shared memory.
 *
 * Each process has one segment (lib/shm/segment.h). It is sparse: untouched pages cost nothing, so
 * it is laid out once for the largest case.
 *
 *	head	identity of the owner, the bell, whether the owner sleeps	peers write
 *	regs	table of the owner's registrations				peers read
 *	ring[]	one inbound ring per endpoint, the first LARGE of 264 KiB,	its peer writes
 *		the others of 24 KiB
 *
 * Rings have one producer, one consumer and no lock, so a process killed at any point leaves the
 * others working. An entry takes as many lines as it needs, one after the other: one that starts
 * near the end goes on behind it. It is published by its own sequence number, the number of its
 * first line + 1. There is no shared head, and a short entry costs the consumer one cache line. A
 * line may hold data that look like a sequence number, so before an entry is published, the first
 * line of the next one gets a number that is not the next. A large ring holds a window of messages,
 * while its consumer does something else; otherwise its producer turns back to line 0 after TURN
 * lines, so that the other lines do not pass through the caches: the entry before says so.
 *
 * A producer sets the ring's bit in bell and sum, unless the consumer watches the ring: then each
 * poll, and the last look before a sleep, reads the ring's next entry. A watched ring costs its
 * producer no line but the entry's. A consumer that ends its watch looks at the ring once more.
 *
 * The state of a ring is one word, {generation, enum shm_ring_state}, and decides who may use it:
 *
 *	FREE --ep_open--> OPEN --peer's ep_connect--> ATTACHED --peer's ep_close--> LEFT
 *	ATTACHED --ep_close--> CLOSED --peer notices (or is dead)--> FREE
 *	OPEN, LEFT --ep_close--> FREE
 *
 * A ring is reused only when FREE, that is when no process can push into it any more. So a push
 * into a closed ring does no harm, and a peer with an old address finds another generation.
 *
 * Fences: before touching a region a peer stores its id in `busy` of the ring and then checks, in
 * this order, the ring's state and the region's entry. ep_close and dereg change those first and
 * wait for busy afterwards (both sides seq_cst, as in Dekker's algorithm). That wait lasts as long
 * as a copy under way, but does not wait for a peer that was killed during its copy. Pointers from
 * map() bypass them: the owner of such memory keeps it until the peer has finished or ended. While
 * the peer copies there, it stores the owner's process id in `copying` of its own head, in a word
 * of its window or context, so that ep_close sees whether a peer taken for dead would write on.
 */
#ifndef TT_SHM_H
#define TT_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/shm/segment.h"

#define SHM_MAGIC 0x3730485355545454ull /* "TTTUSH07": layout version included */
#define SHM_SEG_NAME "tutti-shm"
#define SHM_LINE 64
#define SHM_RINGS 4096	    /* endpoints of a process */
#define SHM_LARGE 4	    /* large rings */
#define SHM_TURN 1024	    /* lines after which a producer may turn back */
#define SHM_TURN_SOON 64    /* the same while entries answer those of the peer */
#define SHM_ANSWERS 16	    /* the latest that are remembered */
#define SHM_REGS 32768	    /* registrations of a process */
#define SHM_RING_SIZE 24576 /* whole pages, as: */
#define SHM_LARGE_SIZE 270336
#define SHM_BATCH 64 /* events of a poll */
#define SHM_FENCE_MS 5000
#define SHM_WATCHED 4	     /* rings that a process watches */
#define SHM_WATCH_POLLS 4096 /* polls without an entry until another ring may take the place */

/* The probe, the bell and the sleeper's flag. */
struct shm_head {
	struct tt_shm_head id;

	/* The line an idle poll reads: which words of bell have a bit, and the first words. */
	_Alignas(SHM_LINE) _Atomic uint64_t sum;
	_Atomic uint32_t sleeping;
	_Atomic uint64_t bell[SHM_RINGS / 64]; /* one bit a ring */

	/* By window, and one of the context: the process copied into, past the fences; 0: none. */
	_Alignas(SHM_LINE) _Atomic uint32_t copying[TT_TP_COPYING];
};

enum shm_kind { SHM_NOTE = 1, SHM_MSG, SHM_BRIEF };

struct shm_entry {
	_Alignas(SHM_LINE) _Atomic uint32_t seq; /* its first line + 1 once the rest is valid */
	uint16_t kind, len;
	uint32_t note;
	uint32_t turn;	/* the next entry is at line 0 */
	uint8_t data[]; /* of a message: at most TT_TP_MSG_MAX or TT_TP_BRIEF_MAX */
};

#define SHM_ENTRY_HEAD offsetof(struct shm_entry, data)
#define SHM_ENTRY_LINES ((SHM_ENTRY_HEAD + TT_TP_BRIEF_MAX + SHM_LINE - 1) / SHM_LINE)

/* Of an entry with this much data. */
static inline uint32_t shm_entry_lines(size_t len)
{
	return (uint32_t)((SHM_ENTRY_HEAD + len + SHM_LINE - 1) / SHM_LINE);
}

/* Its data's length, at most what this kind may have. */
static inline size_t shm_entry_len(const struct shm_entry *e)
{
	size_t most = e->kind == SHM_BRIEF ? TT_TP_BRIEF_MAX
		      : e->kind == SHM_MSG ? TT_TP_MSG_MAX
					   : 0;

	return e->len < most ? e->len : most;
}

enum shm_ring_state { SHM_FREE, SHM_OPEN, SHM_ATTACHED, SHM_LEFT, SHM_CLOSED };

struct shm_ring {
	_Alignas(SHM_LINE) _Atomic uint64_t state; /* generation << 32 | shm_ring_state */
	_Atomic uint32_t sweep;	   /* the producer gave up regions: unmap stale ones */
	_Atomic uint64_t producer; /* generation << 32 | its process, 0: none yet */
	_Atomic uint32_t watched;  /* the consumer's: no bell is needed */
	_Alignas(SHM_LINE) _Atomic uint64_t busy;    /* region id the producer works on, 0: none */
	_Alignas(SHM_LINE) _Atomic uint32_t tail;    /* lines consumed */
	_Alignas(SHM_LINE) uint8_t line[][SHM_LINE]; /* the last entry may go on behind the last */
};

static inline size_t shm_ring_size(uint32_t ring)
{
	return ring < SHM_LARGE ? SHM_LARGE_SIZE : SHM_RING_SIZE;
}

/* Lines in which entries begin. */
static inline uint32_t shm_ring_lines(uint32_t ring)
{
	return (uint32_t)((shm_ring_size(ring) - sizeof(struct shm_ring)) / SHM_LINE -
			  SHM_ENTRY_LINES + 1);
}

_Static_assert(sizeof(struct shm_head) <= 4096, "the head outgrew its page");

/* Where a producer or a consumer is in a ring. */
struct shm_at {
	uint32_t count, line; /* lines since the ring's first use; the place of the next entry */
	uint32_t lines;	      /* of the ring */
};

static inline struct shm_entry *shm_entry_at(struct shm_ring *ring, const struct shm_at *at)
{
	return (struct shm_entry *)(void *)ring->line[at->line];
}

static inline struct shm_at shm_after(struct shm_at at, uint32_t lines)
{
	at.count += lines;
	at.line += lines;
	if (at.line >= at.lines)
		at.line -= at.lines;
	return at;
}

/* Back to line 0. */
static inline struct shm_at shm_turned(struct shm_at at)
{
	at.count += at.lines - at.line;
	at.line = 0;
	return at;
}

/* After an entry of the ring with this much data. */
static inline struct shm_at shm_after_entry(struct shm_at at, const struct shm_entry *e, size_t len)
{
	struct shm_at next = shm_after(at, shm_entry_lines(len));

	return e->turn ? shm_turned(next) : next;
}

#define SHM_OFF_REGS 4096
#define SHM_LEN_REGS (SHM_REGS * sizeof(struct tt_shm_entry))
#define SHM_OFF_RINGS (SHM_OFF_REGS + SHM_LEN_REGS)

static inline size_t shm_ring_off(uint32_t ring)
{
	uint32_t large = ring < SHM_LARGE ? ring : SHM_LARGE;

	return SHM_OFF_RINGS + (size_t)large * SHM_LARGE_SIZE +
	       (size_t)(ring - large) * SHM_RING_SIZE;
}

#define SHM_SEG_SIZE shm_ring_off(SHM_RINGS)

/* An endpoint's address. */
struct shm_blob {
	uint64_t magic;
	uint64_t cookie[2];
	uint64_t probe; /* address of the cookie in ordinary memory, 0: do not try */
	uint32_t pid, uid;
	int32_t seg_fd;
	uint32_t ring, gen;
	uint32_t reserved; /* 0 */
};

struct shm_ep;

/* A peer's ring that stays mapped after its connection. */
struct shm_old {
	struct shm_old *next;
	struct shm_ring *ring;
	size_t size;
};

struct shm_tp {
	struct tt_tp tp;
	uint64_t probe[2];	  /* the cookie again, where process_vm_readv is tried */
	void (*alive)(void *arg); /* as in struct tt_tp_params */
	void *alive_arg;
	uint64_t fence_ns, fence_end, fence_again; /* waits for peers taken for dead */
	uint32_t pid;
	bool armed;
	struct tt_shm_seg own;
	char *seg; /* own, mapped */
	struct shm_head *head;
	struct tt_shm_table regs;
	uint32_t cursor;			   /* ring to be served next */
	uint64_t ready_sum, ready[SHM_RINGS / 64]; /* bells taken but not served to the end */
	uint32_t nconnecting, polls;
	uint32_t neps;	     /* highest ring in use + 1 */
	struct shm_ep **eps; /* by inbound ring */
	struct shm_ep *watched[SHM_WATCHED];
	unsigned nwatched;
	uint32_t clock; /* polls */
	struct shm_old *old;
	uint8_t msgs[SHM_BATCH][TT_TP_BRIEF_MAX];
};

enum shm_ep_state { SHM_EP_NEW, SHM_EP_CONNECTING, SHM_EP_UP, SHM_EP_DOWN };

struct shm_ep {
	struct tt_ep ep;
	enum shm_ep_state state;
	bool failed; /* DOWN is due once the ring is drained */
	/* inbound */
	uint32_t index, gen;
	struct shm_at tail;
	uint32_t came; /* the clock at the last entry */
	struct shm_ring *in;
	/* outbound: the peer's segment */
	uint32_t out_index, tail_seen;
	struct shm_at head, next; /* the entry to write, and after it the one that follows */
	uint32_t heard, answers;  /* tail.count at the last push; pushes with a new one lately */
	uint64_t attached;	  /* what out->state is while we may push */
	struct shm_ring *out;
	struct shm_head *peer;
	const struct tt_shm_entry *regs;
	int wake_fd;
	pid_t pid;
	unsigned full; /* pushes refused in a row */
	bool warned;   /* of memory that cannot be mapped */
	bool watched;  /* out stays mapped: other threads look at its state */
	bool vm;       /* process_vm_* reach the peer's memory: tried */
	struct tt_shm_maps maps;
	char closed[80]; /* in words, should the peer's end be */
};

/* shm_segment.c: peers' segments, rings, bells */
int shm_ring_open(struct shm_tp *tp, uint32_t *index, uint32_t *gen);
void shm_ring_close(struct shm_ep *ep); /* inbound, waits for a copy under way */
int shm_peer_attach(struct shm_ep *ep, const struct shm_blob *blob);
void shm_peer_detach(struct shm_ep *ep);
void shm_free_old(struct shm_tp *tp);
void shm_ring_bell(struct shm_ep *ep);
/* Waits while the producer accesses region id. */
int shm_fence(struct shm_tp *tp, struct shm_ring *ring, uint64_t id);

/* shm_reg.c */
int shm_reg(struct tt_tp *tp, const struct tt_mem *mem, unsigned access, struct tt_mr **mr);
int shm_dereg(struct tt_mr *mr);
bool shm_vm_allowed(void); /* may processes of this user reach each other's ordinary memory? */
int shm_vm_probe(const struct shm_blob *blob);

/* shm_rma.c */
extern const struct tt_ep_ops shm_ep_ops;

/* shm.c */
void shm_mark_ready(struct shm_tp *tp, uint32_t ring);

static inline struct shm_ring *shm_ring_at(char *seg, uint32_t index)
{
	return (struct shm_ring *)(seg + shm_ring_off(index));
}

static inline uint64_t shm_state(uint32_t gen, enum shm_ring_state state)
{
	return (uint64_t)gen << 32 | state;
}

static inline pid_t shm_producer(struct shm_ring *ring)
{
	return (pid_t)(uint32_t)atomic_load(&ring->producer);
}

#endif
