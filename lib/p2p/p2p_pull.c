/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long message of ordinary memory comes to a rank of the same host in one of two ways. This rank
 * reads it where its sender keeps it, by one copy: it pulls it. Or it goes through the pool: two
 * copies, but each rank makes one of them, at the same time. What takes less time depends on the
 * caches that hold both buffers, on where these caches are, and on whether the sender is there to
 * copy. So this rank measures both, by length and sender: now and then it tries the way that is not
 * in use for some messages in a row, and takes to it if they were clearly faster.
 */
#include <float.h>

#include "lib/p2p/p2p.h"

#define LEAST 13   /* log2 of the first length */
#define FIRST 16   /* message with which the first trial begins */
#define SECOND 256 /* and the second one; */
#define AGAIN 1024 /* the others begin every so many */
#define TRIAL 16   /* messages of a trial; the first half finds what the other way left in caches */
#define SETTLED 32 /* from the start of a trial until the way in use is measured again */
#define WEIGHT 8   /* of the past, against one message */
#define OUTLIER 4  /* times the mean: counts as so much */

/*
 * This rank takes to pulling if that takes less than this share of the time through the pool, and
 * gives it up if it takes more than that and MARGIN. In itself pulling costs the sender, too, if it
 * has to fetch its buffer from the caches here to write it again; not if the buffer is LARGE and
 * leaves the caches in any case, and less in a ROW of messages, whose time shows it. A rank that
 * sends to the same peer meanwhile, BOTH ways, saves one of its own copies as well.
 */
#define SHARE 0.6f
#define SHARE_ROW 0.85f
#define SHARE_BOTH 1.2f
#define MARGIN 0.12f
#define LARGE ((size_t)256 << 10)

static struct tt_p2p_peer *peer_of(const struct tt_p2p_req *req)
{
	return req->p2p->peer[req->peer];
}

static struct tt_p2p_way *way_of(const struct tt_p2p_req *req)
{
	int i = 63 - __builtin_clzll(req->total) - LEAST;

	i = i < 0 ? 0 : i < TT_P2P_WAYS ? i : TT_P2P_WAYS - 1;
	return &peer_of(req)->way[i];
}

/* The first message of the last trial before message n, or of the one that n belongs to. */
static uint32_t trial_before(uint32_t n)
{
	return n >= AGAIN ? n - n % AGAIN : n >= SECOND ? SECOND : FIRST;
}

static bool is_tried(uint32_t n)
{
	uint32_t trial = trial_before(n);

	return n >= trial && n - trial < TRIAL;
}

static bool choose(struct tt_p2p_way *way)
{
	uint32_t n = way->messages++;

	if (!way->used)
		way->used = FLT_MAX;
	if (n == trial_before(n)) {
		way->tried = FLT_MAX;
		way->other = (struct tt_p2p_trial){0};
	}
	return way->pull != is_tried(n);
}

/* The trial is over; it begins anew if no message of the way in use had ended before. */
static void decide(struct tt_p2p_way *way, float share)
{
	if (way->used == FLT_MAX)
		way->messages = 0;
	else if (way->pull ? way->used > (share + MARGIN) * way->tried
			   : way->tried < share * way->used) {
		way->pull = !way->pull;
		way->used = way->tried;
	}
}

static float share_for(const struct tt_p2p_req *req, bool row)
{
	if (!tt_list_empty(&peer_of(req)->announced))
		return SHARE_BOTH;
	return row || req->total >= LARGE ? SHARE_ROW : SHARE;
}

/* Message i of TRIAL. Several may end together, so what counts is the mean of all. */
static void tried(float *mean, struct tt_p2p_trial *trial, uint32_t i, float took)
{
	if (i < TRIAL / 2)
		return;
	trial->sum += took;
	trial->n++;
	if (i == TRIAL - 1) {
		*mean = trial->sum / (float)trial->n;
		*trial = (struct tt_p2p_trial){0};
	}
}

/* row: after others, without a wait in between. */
static void measured(const struct tt_p2p_req *req, bool row, float took)
{
	struct tt_p2p_way *way = way_of(req);
	uint32_t n = req->number, trial = trial_before(n);

	if (n < FIRST) {
		tried(&way->used, &way->first, n, took);
	} else if (is_tried(n)) {
		tried(&way->tried, &way->other, n - trial, took);
		if (n - trial == TRIAL - 1)
			decide(way, share_for(req, row));
	} else if (n - trial >= SETTLED) {
		took = took < OUTLIER * way->used ? took : OUTLIER * way->used;
		way->used += (took - way->used) / WEIGHT;
	}
}

bool tt_p2p_pulls(struct tt_p2p_req *req)
{
	struct tt_p2p_way *way = way_of(req);

	req->began = 0;
	if (!req->kept.key[0] || req->layout)
		return false;
	req->began = tt_ticks();
	req->looks = tt_wire_looks(req->p2p->comm->ctx->wire);
	req->number = way->messages;
	return choose(way);
}

bool tt_p2p_read_piece(struct tt_p2p_req *req)
{
	struct tutti_comm *comm = req->p2p->comm;
	size_t left = req->total - req->next, len = left < TT_P2P_PIECE ? left : TT_P2P_PIECE;
	struct tt_kept from = req->kept;

	from.addr += req->next;
	if (tt_wire_read_kept(comm->ctx->wire, comm->world[req->peer], &from,
			      (char *)req->call.buf + req->next, len)) {
		req->began = 0;
		return false;
	}
	req->next += len;
	req->r.progressed = true;
	comm->ctx->moves++;
	tt_wire_stats(comm->ctx->wire)->copied_bytes += len;
	return true;
}

/*
 * If it was taken up in the same look at the transports as the last one ended, or in the next, what
 * was done in between was done for it; otherwise this rank had to wait.
 */
void tt_p2p_came(struct tt_p2p_req *req)
{
	struct tt_p2p_peer *peer = peer_of(req);
	uint64_t now = tt_ticks(), from = req->began;
	bool row = peer->paid > from || req->looks - peer->looks <= 1;

	if (!from || req->r.status)
		return;
	if (row)
		from = peer->paid;
	peer->paid = now;
	peer->looks = tt_wire_looks(req->p2p->comm->ctx->wire);
	measured(req, row, (float)(now - from) * 1024 / (float)req->total);
}
