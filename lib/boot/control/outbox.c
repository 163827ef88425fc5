/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of other threads: control messages to ranks, and what the control thread knows of
 * them.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/reserve.h"
#include "lib/boot/control/control.h"

#define OUTBOX_MAX (16u << 20)

void tt_ctl_wake(struct tt_boot *b)
{
	uint64_t one = 1;
	ssize_t n = write(b->wakefd, &one, sizeof(one)); /* full: awake already */

	(void)n;
}

void tt_boot_job(const struct tt_boot *boot, char text[TT_JOB_TEXT])
{
	sodium_bin2hex(text, TT_JOB_TEXT, boot->self.job, sizeof(boot->self.job));
}

void tt_boot_tell(struct tt_boot *boot, int to, const void *ask, const char *text, size_t len)
{
	unsigned char buf[TT_CTL_MSG_MAX];

	if (len > TT_TOLD_MAX)
		return;
	memcpy(buf, ask, 8);
	memcpy(buf + 8, text, len);
	tt_ctl_send(boot, to, TT_CTL_TOLD, buf, 8 + len);
}

const void *tt_boot_card(const struct tt_boot *boot, int rank, size_t *len)
{
	*len = boot->ranks[rank].card_len;
	return boot->ranks[rank].card;
}

const char *tt_boot_host(const struct tt_boot *boot, int rank)
{
	return boot->ranks[rank].host;
}

/*
 * A single process runs the handlers here, one message after the other, including messages they
 * send.
 */
static void deliver_solo(struct tt_boot *b)
{
	struct tt_outmsg *msg;

	pthread_mutex_lock(&b->lock);
	while (!b->delivering && !tt_list_empty(&b->outbox)) {
		msg = tt_container(b->outbox.next, struct tt_outmsg, node);
		tt_list_del(&msg->node);
		b->outbox_bytes -= sizeof(*msg) + msg->len;
		b->delivering = true;
		pthread_mutex_unlock(&b->lock);
		if (b->handlers.fn[msg->type])
			b->handlers.fn[msg->type](b->handlers.arg, 0, msg->data, msg->len);
		tt_ctl_sent(b, msg);
		pthread_mutex_lock(&b->lock);
		b->delivering = false;
	}
	pthread_mutex_unlock(&b->lock);
}

/*
 * A message that is lost leaves its receivers waiting: there is a spare one for when there is no
 * memory, so that a rank can always tell that.
 */
static struct tt_outmsg *new_message(struct tt_boot *b, size_t len)
{
	struct tt_outmsg *msg = tt_reserve_malloc(sizeof(*msg) + len);

	if (msg)
		msg->spare = false;
	else if (len <= TT_CTL_MSG_MAX && (msg = atomic_exchange(&b->spare, NULL)))
		msg->spare = true;
	return msg;
}

void tt_ctl_sent(struct tt_boot *b, struct tt_outmsg *msg)
{
	free(msg->spare ? atomic_exchange(&b->spare, msg) : msg);
}

static int say_no_room(struct tt_boot *b, int err)
{
	atomic_store(&b->no_room, true);
	tt_ctl_wake(b);
	return err;
}

/* In the control thread, which has sent what was queued. */
void tt_ctl_room(struct tt_boot *b)
{
	if (b->phase == TT_PH_UP && atomic_exchange(&b->no_room, false) && b->handlers.room)
		b->handlers.room(b->handlers.arg);
}

static int post(struct tt_boot *boot, int to, enum tt_ctl_type type, const void *data, size_t len)
{
	struct tt_outmsg *msg;
	bool full, first;

	msg = new_message(boot, len);
	if (!msg)
		return say_no_room(boot, tt_fail(-ENOMEM, "no memory for a control message"));
	msg->to = to;
	msg->type = type;
	msg->len = len;
	if (len)
		memcpy(msg->data, data, len);
	pthread_mutex_lock(&boot->lock);
	full = boot->outbox_bytes + sizeof(*msg) + len > OUTBOX_MAX;
	first = tt_list_empty(&boot->outbox);
	if (!full) {
		boot->outbox_bytes += sizeof(*msg) + len;
		tt_list_add(&boot->outbox, &msg->node);
	}
	pthread_mutex_unlock(&boot->lock);
	if (full) {
		tt_ctl_sent(boot, msg);
		return say_no_room(boot,
				   tt_fail(-ENOMEM, "%u MiB of control messages wait to be sent",
					   OUTBOX_MAX >> 20));
	}
	if (boot->solo)
		deliver_solo(boot);
	else if (first)
		tt_ctl_wake(boot);
	return 0;
}

int tt_ctl_send(struct tt_boot *boot, int to, enum tt_ctl_type type, const void *data, size_t len)
{
	if (len > TT_CTL_MSG_MAX || to < TT_CTL_ALL || to >= boot->nranks || type < 1 ||
	    type >= TT_CTL_TYPES)
		return tt_fail(
			-EINVAL,
			"a control message of type %d and %zu bytes to rank %d is not possible",
			type, len, to);
	return post(boot, to, type, data, len);
}

void tt_ctl_flush(struct tt_boot *boot, int64_t ms)
{
	uint64_t deadline = tt_deadline_ms(ms), mine;
	struct timespec until = {.tv_sec = (time_t)(deadline / TT_SEC),
				 .tv_nsec = (long)(deadline % TT_SEC)};
	int late = 0;

	if (boot->solo || tt_boot_is_control(boot))
		return;
	pthread_mutex_lock(&boot->lock);
	mine = ++boot->flush_asked;
	tt_ctl_wake(boot);
	while (boot->flush_done < mine && !late)
		late = pthread_cond_timedwait(&boot->cond, &boot->lock, &until);
	pthread_mutex_unlock(&boot->lock);
}

/* While this rank looks for a parent its messages wait: they have not been sent. */
void tt_ctl_flushed(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	if (b->flush_done == b->flush_taken || (b->phase == TT_PH_UP && b->dialer.active))
		return;
	tt_list_each(pos, tmp, &b->links)
	{
		const struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->kind == TT_LINK_TREE && link->state == TT_LINK_OPEN &&
		    tt_link_queued(link))
			return;
	}
	pthread_mutex_lock(&b->lock);
	b->flush_done = b->flush_taken;
	pthread_cond_broadcast(&b->cond);
	pthread_mutex_unlock(&b->lock);
}

int tt_boot_evict(struct tt_boot *boot, int rank, const char *why)
{
	if (boot->solo)
		return 0;
	return post(boot, rank, TT_OUT_EVICT, why, strlen(why) + 1);
}

bool tt_boot_gone(struct tt_boot *boot, int rank, char *why, size_t size)
{
	const struct tt_rank_info *info = &boot->ranks[rank];
	bool gone;

	pthread_mutex_lock(&boot->lock);
	gone = info->gone;
	if (size)
		snprintf(why, size, "%s", gone && info->gone_why ? info->gone_why : "");
	pthread_mutex_unlock(&boot->lock);
	return gone;
}

int tt_boot_lowest(struct tt_boot *boot)
{
	int r;

	pthread_mutex_lock(&boot->lock);
	for (r = 0; r < boot->nranks - 1 && boot->ranks[r].gone; r++)
		;
	pthread_mutex_unlock(&boot->lock);
	return r;
}
