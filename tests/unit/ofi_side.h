/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a connection over transport ofi, as test_ofi.c and test_ofi_ends.c drive it; and jobs
 * of two processes.
 */
#ifndef OFI_SIDE_H
#define OFI_SIDE_H

#include "lib/base/clock.h"
#include "lib/wire/transport.h"
#include "tests/test.h"

extern const struct tt_tp_ops tt_ofi_tp;

#define SLOT (1 << 20)
#define SLOTS 8
#define NOTES 256

struct config {
	const char *name, *provider, *ep, *addr; /* NULL: 127.0.0.1 */
	const char *fault;			 /* wrapped, with this for TUTTI_FAULT; NULL: not */
};

extern const struct config msg_tcp, rdm_rxm, rdm_sockets;

#define EACH(test)                                                                                 \
	static void test##_msg(void)                                                               \
	{                                                                                          \
		test(&msg_tcp);                                                                    \
	}                                                                                          \
	static void test##_rxm(void)                                                               \
	{                                                                                          \
		test(&rdm_rxm);                                                                    \
	}                                                                                          \
	static void test##_sockets(void)                                                           \
	{                                                                                          \
		test(&rdm_sockets);                                                                \
	}
#define ROWS(test)                                                                                 \
	{#test "_msg_tcp", test##_msg}, {#test "_rdm_rxm", test##_rxm},                            \
	{                                                                                          \
#test "_rdm_sockets", test##_sockets                                               \
	}

struct side {
	struct tt_env env;
	struct tt_tp_params params;
	struct tt_tp *tp;
	struct tt_ep *ep;
	struct tt_mr *mr;
	char *mem; /* SLOTS slots that the peer writes, then as many of our own to write from */
	struct tt_rkey rkey; /* the peer's */
	uint64_t remote;
	int up, down, done, failed, msgs, stray;
	int status; /* of the last failed DONE or DOWN */
	uint32_t notes[NOTES];
	unsigned nhead, ntail;
	char msg[TT_TP_MSG_MAX];
	unsigned msg_len;
};

/* Data that the ends exchange before they connect. */
struct card {
	char blob[TT_TP_BLOB_MAX];
	size_t len;
	struct tt_rkey rkey;
	uint64_t addr;
};

int side_open(struct side *s, const struct config *c, int rank);
int side_ep(struct side *s, struct card *card);
int side_connect(struct side *s, const struct card *peer, int active);
void side_close(struct side *s);
/* Polls once and counts events. */
void pump(struct side *s);
/* Sleep until something comes, then poll; -ETIMEDOUT: nothing came. */
int sleep_pump(struct side *s, int ms);
int take_note(struct side *s, uint32_t *note);
/* Start a put of len bytes from our slot to the peer's; retries while there is no room. */
int put(struct side *s, int slot, size_t len, uint32_t note, unsigned flags, struct side *other);
int exchange_cards(int fd, const struct card *mine, struct card *theirs);
/* Two ends in this process, connected. */
int pair_open(struct side s[2], const struct config *c);
int pair_connect(struct side s[2]);
void pair_close(struct side s[2]);
/* One end in this process, the other behind fd. */
int remote_open(struct side *s, const struct config *c, int rank, int fd);

struct side_job {
	const struct config *c;
	int fd[2];
	int puts;
};

/* Two processes with fn; how many have failed. Those of killed must die. */
int side_two(tt_rank_fn *fn, struct side_job *job, int ms, unsigned killed);
/* Start of a rank: keep only the own end of the pair, so that the peer's death shows. */
int side_start(struct side *s, const struct side_job *job, int rank);
/* Both ranks come here before either goes on. */
int side_meet(const struct side_job *job, int rank, struct side *s);

/* Do the rest until cond holds; cond may have effects: it is not asked again once it held. */
#define WAIT_FOR(cond, ms, ...)                                                                    \
	({                                                                                         \
		uint64_t end_ = tt_deadline_ms(ms);                                                \
		bool held_;                                                                        \
		while (!(held_ = (cond)) && !tt_passed(end_)) {                                    \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		held_;                                                                             \
	})

#endif
