/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between workers and servers, in whole lines of 64 bytes. See doc/WIRE.md. */
#ifndef TT_PS_MESSAGE_H
#define TT_PS_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_PS_SLOTS 4			/* messages in flight from a worker to a server */
#define TT_PS_BLOCK ((size_t)256 << 10) /* largest block, and largest payload of a message */
#define TT_PS_LINE 64
#define TT_PS_INLINE 4032 /* payloads up to this size travel behind their head */
#define TT_PS_REPLY 32768 /* bytes of an answer: TT_PS_KEYS places */
#define TT_PS_KEYS 8192	  /* keys in one lookup message */
#define TT_PS_TABLES 1024
#define TT_PS_CLOCKS                                                                               \
	2048 /* workers whose clocks are in a file; with more workers only the lowest clock */
#define TT_PS_PRESENT 32768 /* workers of which an answer says that they have not left */
#define TT_PS_NOWHERE UINT32_MAX
#define TT_PS_UNSEEN 0x80000000u /* flag of a place: not published yet */

enum tt_ps_kind {
	TT_PS_SET = 1,	  /* values of elements, from `first` of the server's part on */
	TT_PS_PUSH,	  /* updates of elements within one block */
	TT_PS_PUSH_ROWS,  /* count places, with row versions those, too (32 bits each, to a multiple
			     of 8 bytes), then rows */
	TT_PS_PUSH_CODED, /* as TT_PS_PUSH, or of rows, with the updates encoded by the table's
			     codec */
	TT_PS_PUSH_SAME,  /* as TT_PS_PUSH, if the block still has the version that was pulled; else
			     the answer has a tau and nothing changes */
	TT_PS_LOOKUP,	  /* count keys; the answer has their places, which are made if missing */
	TT_PS_CLOCK,
	TT_PS_BYE,
	TT_PS_SUBSCRIBE, /* to count blocks (32 bits each) */
	TT_PS_MEET,	 /* answered when all workers have come to meeting `first`; payload:
			    tt_ps_word_in */
	TT_PS_SAVE, /* write this server's part of a file; payload: tt_ps_order; this and the next
		       three answer tt_ps_reply */
	TT_PS_SUM,  /* the checksum of the server's share of the file, all parts written */
	TT_PS_PREPARE, /* check and read it beside the current values */
	TT_PS_COMMIT   /* the values that were read replace the current ones */
};

struct tt_ps_msg {
	uint32_t kind, table;
	uint64_t number; /* of this worker and server, from 0: message n is in slot n % TT_PS_SLOTS
			  */
	uint64_t clock;
	uint64_t first;
	uint32_t count;
	uint32_t len;	  /* of the payload */
	uint32_t behind;  /* 1: the payload follows the head; 0: it has its own bell */
	uint32_t version; /* of the block at the last pull; TT_PS_NOWHERE: never pulled */
	uint64_t order;	  /* between servers: the replication sequence number */
	uint64_t sum;	  /* verify: tt_ps_msg_sum */
};

/* The answer to a message; the message's slot is then free. */
struct tt_ps_credit {
	uint64_t number;
	int64_t status;
	uint64_t sequence; /* the first publication that contains the push; 0: do not wait */
	uint64_t len;	   /* of the data that follows */
	uint64_t tau;	   /* versions by which the push was late; of rows, the total */
	uint64_t room;	   /* status -ENOMEM: bytes that the server can still get */
	uint64_t dropped;  /* elements of this worker's pushes that came too late, so far */
	uint64_t spare;
};

struct tt_ps_note {
	uint64_t min_clock; /* everything up to this clock is published */
	uint64_t ended;	    /* 1: all workers have said good-bye; this is the last note */
	uint64_t slowest; /* index + 1 of the slowest worker, after others have waited for a while;
			     0: not known */
	uint64_t dropped; /* elements of this worker's pushes that came too late */
	uint64_t missing; /* index + 1 of a worker that has not come to the meeting; 0: none */
	uint64_t failed;  /* rank of the world + 1 that is stopped, for which the server fails; 0:
			     none */
	uint64_t spare[2];
};

/*
 * A worker's message at a meeting: the purpose, equal on all workers, and the result of the
 * leader's work. In the answer rows is the sum of all workers'.
 */
struct tt_ps_said {
	uint64_t what;
	uint64_t rows; /* that it will write to the file: held_file.c */
	uint64_t led;  /* 1: from the leader, which has finished */
	int64_t status;
	char text[400];
};

/* An order to a server to write or read its part of a checkpoint. */
struct tt_ps_order {
	char path[1024];
	uint64_t before[TT_PS_TABLES]; /* save: rows in front of this server's */
	uint64_t min_clock, workers;   /* restore: of the file */
	uint64_t clock[TT_PS_CLOCKS];
};

/* A server's answer. */
struct tt_ps_reply {
	struct tt_ps_said said; /* the server's own failure, or what the leader said */
	uint64_t leader;	/* the lowest index of a worker that has not left */
	uint64_t min_clock;	/* of all */
	uint64_t restored;	/* the publication that shows the restored values */
	uint64_t sum;		/* TT_PS_SUM */
	uint64_t held_before;	/* said.rows of the workers in front of this one */
	uint64_t rows[TT_PS_TABLES];
	uint64_t clock[TT_PS_CLOCKS];	   /* by worker */
	uint64_t here[TT_PS_PRESENT / 64]; /* bits, by worker: it has not left */
};

static inline bool tt_ps_is_here(const struct tt_ps_reply *r, int worker)
{
	return worker >= TT_PS_PRESENT || r->here[worker / 64] >> worker % 64 & 1;
}

/* Before each slot of a block. */
struct tt_ps_head {
	_Atomic uint64_t stamp; /* sequence << 1 | retired; 0: empty, or being written */
	uint64_t min_clock;
	uint64_t length;
	uint64_t checksum; /* XXH3 of the data */
	uint64_t generation;
	uint64_t version;		/* dense: number of updates applied */
	uint64_t coded, coded_checksum; /* the encoded copy: its length; XXH3 of it */
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
