/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client inspects a running job. Every rank listens on an abstract socket of its host,
 *
 *	"\0tutti/UID/JOB/RANK/PID"	JOB: the nonce, 32 hexadecimal digits
 *
 * which is not reachable over a network. Such sockets have no permissions, so the kernel is asked
 * for the client's identity: the client must be a process of the same user or of root. It must also
 * know the job's key, like every other connection (auth.c, kind 3). The client finds the key in a
 * memfd of the rank, "tutti key JOB", which the kernel lets only the same user and root open. A
 * container that shares the network but not the processes is thus kept out. Frames, as in
 * control_loop.c:
 *
 *	14 ASK		to	u32 a number, which comes back
 *	15 JOB		from	that number, u32 ranks, u32 n, n times u32: ranks that have failed
 *	16 TOLD		from	that number, u32 rank, bytes: that rank's description of itself,
 * JSON
 *
 * Ranks are asked, and answer, over the control tree; the rank with the client forwards the
 * answers.
 */
#ifndef TT_RAS_H
#define TT_RAS_H

#include "lib/boot/control/control.h"

#define TT_RAS_KEY "tutti key "
#define TT_RAS_PREFIX "tutti/"
#define TT_RAS_CLIENTS 16 /* at once */

/* In the control thread. A failure does not affect the job. */
void tt_ras_open(struct tt_boot *b);
void tt_ras_close(struct tt_boot *b);
void tt_ras_accept(struct tt_boot *b);
void tt_ras_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		  size_t len);
/* A rank's answer to a question of this rank. */
void tt_ras_told(struct tt_boot *b, int from, const unsigned char *data, size_t len);

#endif
