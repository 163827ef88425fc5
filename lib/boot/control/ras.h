/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client looks at a running job: every rank listens on a socket of its host that has no file,
 *
 *	"\0tutti/UID/JOB/RANK/PID"	JOB: the nonce, 32 hexadecimal digits
 *
 * to which no network leads. Such sockets have no permissions, so the kernel is asked who
 * connects: it must be a process of the same user, or of root, and it must know the job's key, as
 * every other connection (auth.c, kind 3). It finds that in a memfd of the rank, "tutti key JOB",
 * which the kernel lets the same user and root open only; so a container that shares the network,
 * but not the processes, is kept out. Frames, as in control_loop.c:
 *
 *	15 ASK		to	u32 a number, which comes back
 *	16 JOB		from	that number, u32 ranks, u32 n, n times u32: ranks that are gone
 *	17 TOLD		from	that number, u32 rank, bytes: what that rank says of itself, JSON
 *
 * Ranks are asked, and answer, over the control tree; the rank that was asked first passes on what
 * comes.
 */
#ifndef TT_RAS_H
#define TT_RAS_H

#include "lib/boot/control/control.h"

#define TT_RAS_KEY "tutti key "
#define TT_RAS_PREFIX "tutti/"
#define TT_RAS_CLIENTS 16 /* at once */

/* In the control thread. Without it the job works as well. */
void tt_ras_open(struct tt_boot *b);
void tt_ras_close(struct tt_boot *b);
void tt_ras_accept(struct tt_boot *b);
void tt_ras_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		  size_t len);
/* A rank's answer to what this one asked. */
void tt_ras_told(struct tt_boot *b, int from, const unsigned char *data, size_t len);

#endif
