/* SPDX-License-Identifier: BSD-3-Clause */
/* What travels between workers and servers: whole lines of 64 bytes. See doc/WIRE.md. */
#ifndef TT_PS_MESSAGE_H
#define TT_PS_MESSAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TT_PS_SLOTS 4			/* messages of a worker to a server under way */
#define TT_PS_BLOCK ((size_t)256 << 10) /* largest block, and largest payload of a message */
#define TT_PS_LINE 64
#define TT_PS_INLINE 4032 /* payloads up to this travel behind their head */
#define TT_PS_REPLY 32768 /* bytes of an answer: of TT_PS_KEYS places */
#define TT_PS_KEYS 8192	  /* looked up with one message */
#define TT_PS_TABLES 1024
#define TT_PS_CLOCKS 2048 /* workers whose clocks are in a file; of more, the lowest alone */
#define TT_PS_NOWHERE UINT32_MAX
#define TT_PS_UNSEEN 0x80000000u /* of a place told: not in what is published so far */

enum tt_ps_kind {
	TT_PS_SET = 1,	 /* values of elements from `first` of the server's part on */
	TT_PS_PUSH,	 /* updates of them, within one block */
	TT_PS_PUSH_ROWS, /* count places, with row versions those, too (32 bits each, to a multiple
			    of 8 bytes), then rows */
	TT_PS_LOOKUP,	 /* count keys; answered with their places, made if need be */
	TT_PS_CLOCK,
	TT_PS_BYE,
	TT_PS_SUBSCRIBE, /* to count blocks (32 bits each) */
	TT_PS_MEET,	 /* answered when all workers have come to meeting `first`; payload:
			    tt_ps_word_in */
	TT_PS_SAVE,	 /* write this server's part of a file; payload: tt_ps_order; these answer
			    tt_ps_reply */
	TT_PS_PREPARE,	 /* read it, beside what there is */
	TT_PS_COMMIT	 /* what was read takes its place */
};

struct tt_ps_msg {
	uint32_t kind, table;
	uint64_t number; /* of this worker and server, from 0: message n is in slot n % TT_PS_SLOTS
			  */
	uint64_t clock;
	uint64_t first;
	uint32_t count;
	uint32_t len;	  /* of the payload */
	uint32_t behind;  /* 1: it is behind the head; 0: it rings for itself */
	uint32_t version; /* of the block when it was pulled last; TT_PS_NOWHERE: never */
	uint64_t order;	  /* between servers: the replication sequence number */
	uint64_t sum;	  /* verify: tt_ps_msg_sum */
};

/* The answer to a message; its slot is free then. */
struct tt_ps_credit {
	uint64_t number;
	int64_t status;
	uint64_t sequence; /* the first publication that contains the push; 0: none to wait for */
	uint64_t len;	   /* of what follows */
	uint64_t tau;	   /* versions that the push was late; of rows, of all together */
	uint64_t spare[3];
};

struct tt_ps_note {
	uint64_t min_clock; /* published everything up to this one */
	uint64_t ended;	    /* 1: all workers have said good-bye; nothing comes after it */
	uint64_t slowest; /* its index + 1, when others have waited for it for a while; 0: not known
			   */
	uint64_t spare[5];
};

/*
 * What a worker says at a meeting: what it is for, the same for all, and how the leader's work
 * ended.
 */
struct tt_ps_said {
	uint64_t what;
	uint64_t led; /* 1: it was the leader, and is through */
	int64_t status;
	char text[400];
};

/* What a server is to do with the file of this path. */
struct tt_ps_order {
	char path[1024];
	uint64_t before[TT_PS_TABLES]; /* save: rows that go before its own */
	uint64_t min_clock, workers;   /* restore: of the file */
	uint64_t clock[TT_PS_CLOCKS];
};

/* A server's answer. */
struct tt_ps_reply {
	struct tt_ps_said said; /* the server's own failure, or what the leader said */
	uint64_t leader;	/* worker of the lowest index that is here */
	uint64_t min_clock;	/* of all */
	uint64_t restored;	/* the publication that shows what was restored last */
	uint64_t rows[TT_PS_TABLES];
	uint64_t clock[TT_PS_CLOCKS]; /* by worker */
};

/* Before each slot of a block. */
struct tt_ps_head {
	_Atomic uint64_t stamp; /* sequence << 1 | retired; 0: nothing, or being written */
	uint64_t min_clock;
	uint64_t length;
	uint64_t checksum; /* XXH3 of the data */
	uint64_t generation;
	uint64_t version; /* dense: updates that it has had */
	uint64_t spare[2];
};

/* Lower bound of a replica's sequence numbers; above those of all replicas before it. */
static inline uint64_t tt_ps_first(uint64_t copy)
{
	return copy << 40;
}

/* A word of a directory: sequence << 8 | slot; 0: never published. */
static inline uint64_t tt_ps_word(uint64_t sequence, unsigned slot)
{
	return sequence << 8 | slot;
}

#endif
