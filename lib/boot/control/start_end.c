/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the start of a job ends: every rank has entered and the tree stands, or one error is told to
 * all ranks.
 */
#include "lib/boot/control/control.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "lib/boot/control/ras.h"
#include "lib/boot/rendezvous/pack.h"

#define DRAIN_MS 1000
#define LINGER_MS 2000 /* a failed rank 0 stays until all ranks have been told */

void tt_start_done(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;
	uint64_t now = tt_now_ns();

	b->phase = TT_PH_UP; /* the listener stays, for ranks that lose their parent */
	tt_list_each(pos, tmp, &b->links) tt_container(pos, struct tt_link, node)->last_rx = now;
	if (b->join)
		tt_link_kill(b->join, 0, "the start is over");
	b->join = NULL;
	tt_ras_open(b);
	pthread_mutex_lock(&b->lock);
	b->started = true;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

void tt_send_error(const struct tutti_error_info *error, struct tt_link *link)
{
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

	tt_put_u(&k, (uint32_t)error->code, 4);
	tt_put_u(&k, (uint32_t)error->rank, 4);
	tt_put_str(&k, error->host);
	tt_put_str(&k, error->text);
	tt_link_send(link, TT_F_ERROR, buf, k.len);
}

static void tell_all(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	b->njoined = 0; /* from now on: ranks that have been told */
	tt_list_each(pos, tmp, &b->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind != TT_LINK_JOIN || link->state != TT_LINK_OPEN)
			continue;
		b->njoined++;
		tt_send_error(&b->error, link);
		tt_link_close_after(link, tt_deadline_ms(DRAIN_MS));
	}
}

void tt_note_files(struct tt_boot *b)
{
	size_t used = strlen(b->error.text);

	if (b->out_of_files && !strstr(b->error.text, "ulimit -n"))
		snprintf(b->error.text + used, sizeof(b->error.text) - used,
			 "; rank %d was out of file descriptors: raise 'ulimit -n'", b->rank);
}

void tt_start_fail(struct tt_boot *b, int code, int rank, const char *host, const char *fmt, ...)
{
	va_list ap;

	if (b->phase >= TT_PH_UP)
		return;
	b->error = (struct tutti_error_info){.size = sizeof(b->error), .code = code, .rank = rank};
	snprintf(b->error.call, sizeof(b->error.call), "init");
	snprintf(b->error.host, sizeof(b->error.host), "%s", host ? host : "");
	va_start(ap, fmt);
	vsnprintf(b->error.text, sizeof(b->error.text), fmt, ap);
	va_end(ap);
	tt_note_files(b);
	b->phase = TT_PH_FAIL;
	b->dialer.active = false;
	b->drain_deadline = tt_deadline_ms(LINGER_MS);
	if (b->rank && !(b->join && b->join->state == TT_LINK_OPEN))
		b->phase = TT_PH_END;
	else if (b->rank)
		tt_send_error(&b->error, b->join);
	else
		tell_all(b);
}

void tt_start_no_memory(struct tt_boot *b)
{
	tt_start_fail(b, -ENOMEM, b->rank, b->host,
		      "rank %d has no memory for a connection; " TT_RAISE_MEMORY, b->rank);
}

void tt_start_refuse(struct tt_boot *b)
{
	const struct tutti_error_info *why = b->params.broken;

	tt_start_fail(b, why->code, b->rank, b->host, "rank %d on %s cannot start: %s", b->rank,
		      b->host, why->text);
}

/* A rank that has not reached rank 0 yet does so first (tt_join_open). */
static void refuse(struct tt_boot *b)
{
	if (!b->rank || b->join)
		tt_start_refuse(b);
}

/* Enters this rank's card; the caller of tt_boot_join waits with the lock free. */
static void enter(struct tt_boot *b, const void *card, size_t len)
{
	struct tt_list *pos, *tmp;
	int open = b->listenfd >= 0 ? 3 : 2; /* with epfd and wakefd */

	if (b->phase != TT_PH_JOIN || b->entered)
		return;
	tt_list_each(pos, tmp, &b->links) open += tt_container(pos, struct tt_link, node)->fd >= 0;
	tt_check_files(b, open);
	if (b->params.broken) {
		refuse(b);
		return;
	}
	if (tt_tree_entry(b, b->rank, b->host, card, len)) {
		tt_start_fail(b, -ENOMEM, b->rank, b->host,
			      "rank %d has no memory for its card; " TT_RAISE_MEMORY, b->rank);
		return;
	}
	b->entered = true;
	if (b->rank)
		tt_join_enter(b);
	else
		tt_store_enter(b);
}

void tt_start_take_card(struct tt_boot *b)
{
	const void *card;
	bool refuses;
	size_t len;

	pthread_mutex_lock(&b->lock);
	card = b->card;
	len = b->card_len;
	refuses = b->refused_start;
	pthread_mutex_unlock(&b->lock);
	if (card)
		enter(b, card, len);
	if (!refuses || b->params.broken)
		return;
	b->params.broken = &b->unfit;
	b->start_deadline = tt_deadline_ms(TT_REFUSE_MS);
	refuse(b);
}
