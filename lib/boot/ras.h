/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client looks at a running job: rank 0 listens on a socket of its host that has no file,
 *
 *	"\0tutti/UID/JOB/PID"	JOB: the nonce, 32 hexadecimal digits
 *
 * to which no network leads. Whoever connects must be of the same user, or root, and know the job's
 * key, as every other connection (auth.c, kind 3). A client finds the key in a memfd of rank 0, which the
 * kernel lets the same user and root open only. Frames, as in ctl.c:
 *
 *	15 ASK		to	u32 a number, which comes back
 *	16 JOB		from	that number, u32 ranks, u32 n, n times u32: ranks that are gone
 *	17 TOLD		from	that number, u32 rank, bytes: what that rank says of itself, JSON
 *
 * Ranks are asked, and answer, over the control tree; rank 0 passes on whatever comes.
 */
#ifndef TT_RAS_H
#define TT_RAS_H

#include "lib/boot/ctl.h"

#define TT_RAS_KEY "tutti key"
#define TT_RAS_PREFIX "tutti/"
#define TT_RAS_CLIENTS 16 /* at once */

/* At rank 0, in the control thread. Without it the job works as well. */
void tt_ras_open(struct tt_boot *b);
void tt_ras_close(struct tt_boot *b);
void tt_ras_accept(struct tt_boot *b);
void tt_ras_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		  size_t len);
/* A rank's answer. */
void tt_ras_told(struct tt_boot *b, int from, const unsigned char *data, size_t len);

#endif
