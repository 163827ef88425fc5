/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: the last calls of this process, in memory that survives it for a moment.
 *
 * The memory is a memfd. Under tutti_run the launcher creates it and keeps a descriptor, so that
 * it can dump the calls of a killed or stopped rank; otherwise the library creates it. The
 * recorder contains the names of calls, types and so on, because its reader may be another
 * program. There is one writer at a time, under the wire lock. Readers do not lock: a record whose
 * number is wrong before or after the copy is being written.
 */
#ifndef TT_FLIGHT_H
#define TT_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/clock.h"

#define TT_FLIGHT_MAGIC 0x7474666c74303033ull
#define TT_FLIGHT_RECORDS 1024 /* a power of two */
#define TT_FLIGHT_COMMS 64     /* communicators remembered, the last ones */
#define TT_FLIGHT_NAMES 160
#define TT_FLIGHT_MEMBERS 64
#define TT_FLIGHT_COMM_NAME 48
#define TT_FLIGHT_NO_COUNT UINT64_MAX

enum tt_flight_state { TT_FLIGHT_FREE, TT_FLIGHT_RUNNING, TT_FLIGHT_DONE, TT_FLIGHT_FAILED };

/* An operation. Names are indexes into the head's list, 0: none. */
struct tt_flight_rec {
	_Atomic uint64_t number; /* which operation of the process, from 1 */
	uint64_t comm;		 /* uid of its communicator */
	uint64_t seq;		 /* of a collective, else 0; see tt_flight_start */
	uint64_t count;		 /* TT_FLIGHT_NO_COUNT: it has none */
	uint64_t bytes;		 /* sent, received, copied or combined so far */
	uint64_t start, end;	 /* ticks */
	uint32_t rounds, of;	 /* rounds complete in all lanes, and their number; 0: not known */
	int32_t peer;		 /* root, or the other rank of a message; -1: none */
	int32_t tag;		 /* of a message, -1 */
	int32_t status;
	uint8_t call, type, op, alg;
	uint8_t state;
	uint8_t in_place;
	uint8_t pad[6];
};

/* seq of a start of a persistent collective: a bit, 31 bits of init, 32 bits of the start. */
static inline uint64_t tt_flight_start(uint32_t init, uint64_t start)
{
	return init ? 1ull << 63 | (uint64_t)init << 32 | (uint32_t)start : start;
}

static inline uint32_t tt_flight_init_of(uint64_t seq)
{
	return seq >> 63 ? (uint32_t)(seq >> 32) & 0x7fffffff : 0;
}

static inline uint64_t tt_flight_seq_of(uint64_t seq)
{
	return seq >> 63 ? (uint32_t)seq : seq;
}

struct tt_flight_comm {
	_Atomic uint64_t uid; /* 0: the rest is not valid */
	uint64_t seq;	      /* of its last collective */
	uint32_t id, size;
	int32_t rank;
	int32_t code;	 /* its failure, or 0 */
	int32_t culprit; /* rank in the world that the failure is about, or -1 */
	int32_t late[4]; /* ranks of the world that it waits for */
	uint32_t nlate;
	uint64_t fail_seq;
	uint64_t late_seq;		   /* see tt_flight_start */
	uint64_t made, fail_time;	   /* ticks */
	int32_t member[TT_FLIGHT_MEMBERS]; /* the first ones' ranks in the world */
	char call[32], field[32], text[512];
	char name[TT_FLIGHT_COMM_NAME]; /* the caller's; empty: none */
};

struct tt_flight_head {
	uint64_t magic;
	uint32_t head_size, rec_size, records, nnames;
	int32_t rank, nranks;
	int64_t pid;
	char host[64], job[40];
	uint64_t ticks0, real0;	 /* the same moment by ticks, and in ns since 1970 */
	_Atomic uint64_t last;	 /* number of the last operation */
	_Atomic uint32_t ncomms; /* ever */
	uint32_t blames;	 /* 1 + the rank because of which the start failed */
	_Atomic uint64_t dumped; /* last + 1 when the process wrote a dump because of an error */
	char name[TT_FLIGHT_NAMES][20];
	struct tt_flight_comm comm[TT_FLIGHT_COMMS];
};

struct tt_flight {
	struct tt_flight_head *head;
	struct tt_flight_rec *rec;
	size_t size;
	int fd;
};

/* The size of the memory, and an empty memfd of it; fd, or a negative code. */
size_t tt_flight_size(void);
int tt_flight_memfd(void);
/*
 * Map fd (taken over), -1: make one; also if that one is another living process's, whose
 * descriptor a child has inherited. A recorder that can't be had has head NULL; calls then do
 * nothing.
 */
int tt_flight_open(struct tt_flight *f, int fd);
/* Map another process's recorder, read-only. */
int tt_flight_attach(struct tt_flight *f, int fd);
void tt_flight_close(struct tt_flight *f);
/*
 * From now on f is kept in fd (taken over), with all that it has, at the addresses that it has. An
 * operation that another thread begins or ends meanwhile may be lost.
 */
int tt_flight_move(struct tt_flight *f, int fd);

/* The index of a name, added if need be; 0 if there is no room. Not for hot paths. */
uint8_t tt_flight_name(struct tt_flight *f, const char *name);

/* The description of an operation, as far as known at its start. */
struct tt_flight_op {
	uint64_t comm, count;
	uint32_t of;
	int32_t peer, tag;
	uint8_t call, type, op, alg, in_place;
};

/* An operation starts: its number, which the others take. seq: of a collective, else 0. */
uint64_t tt_flight_begin(struct tt_flight *f, const struct tt_flight_op *op, uint64_t seq);
/* The same of one that has ended with success; start: its ticks then, 0: now. */
void tt_flight_whole(struct tt_flight *f, const struct tt_flight_op *op, uint64_t start);
/* Rounds and bytes more are done. */
void tt_flight_more(struct tt_flight *f, uint64_t number, uint32_t rounds, uint64_t bytes);
/* end: its ticks then, which may have been read a little before the operation began. */
void tt_flight_end(struct tt_flight *f, uint64_t number, int status, uint64_t end);
/* It has ended well: all rounds are done, and so many bytes. */
void tt_flight_done(struct tt_flight *f, uint64_t number, uint64_t bytes);

/* For readers: a copy of record number, false: it is not kept any more, or being written. */
bool tt_flight_read(const struct tt_flight *f, uint64_t number, struct tt_flight_rec *rec);
/* The name of that index, and the id of the communicator of that uid; "", 0: not known. */
const char *tt_flight_name_of(const struct tt_flight *f, uint8_t i);
uint32_t tt_flight_comm_id(const struct tt_flight *f, uint64_t uid);

/*
 * Room for a communicator of the ranks world[0 .. size) of the job; NULL: no recorder. It may be
 * taken for another after TT_FLIGHT_COMMS more.
 */
struct tt_flight_comm *tt_flight_comm(struct tt_flight *f, uint64_t uid, uint32_t id, int rank,
				      int size, const int *world);
/* Names the entry, if it is still that communicator's. */
void tt_flight_name_comm(struct tt_flight_comm *comm, uint64_t uid, const char *name);
/* For readers: a copy of entry i; false: it is empty, or being written. */
bool tt_flight_read_comm(const struct tt_flight *f, int i, struct tt_flight_comm *comm);

#endif
