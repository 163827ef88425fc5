/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining: takes every rank but 0 from an address to its place in the tree.
 *
 * The dialer connects, first to rank 0's store, then to the parent. It retries until success or
 * the deadline: rank 0 may not be up yet, or the listener may be left over from another job.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "lib/boot/rendezvous/bootdir.h"
#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/pack.h"
#include "lib/boot/rendezvous/secure.h"
#include "lib/boot/control/control_tree.h"

#define DIAL_MS 5000	 /* one try, including the handshake */
#define DIAL_DIR_MS 2000 /* the same if the address may be left over */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 500

void tt_put_addr(struct tt_pack *k, const struct tt_addr *addr)
{
	unsigned char bytes[16] = {0};
	int family = 0, port = 0;

	if (addr->sa.ss_family == AF_INET) {
		family = 4;
		memcpy(bytes, &((const struct sockaddr_in *)&addr->sa)->sin_addr, 4);
	} else if (addr->sa.ss_family == AF_INET6) {
		family = 6;
		memcpy(bytes, &((const struct sockaddr_in6 *)&addr->sa)->sin6_addr, 16);
	}
	if (family)
		port = tt_addr_port((const struct sockaddr *)&addr->sa);
	tt_put_u(k, (unsigned)family, 1);
	tt_put_u(k, (unsigned)port, 2);
	tt_put(k, bytes, sizeof(bytes));
}

void tt_get_addr(struct tt_unpack *u, struct tt_addr *addr)
{
	int family = (int)tt_get_u(u, 1), port = (int)tt_get_u(u, 2);
	const void *bytes = tt_get(u, 16);

	memset(addr, 0, sizeof(*addr));
	if (!bytes || (family != 4 && family != 6))
		return;
	addr->sa.ss_family = family == 4 ? AF_INET : AF_INET6;
	addr->len = family == 4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (family == 4)
		memcpy(&((struct sockaddr_in *)&addr->sa)->sin_addr, bytes, 4);
	else
		memcpy(&((struct sockaddr_in6 *)&addr->sa)->sin6_addr, bytes, 16);
	tt_addr_set_port(addr, port);
}

static int dial_targets(struct tt_boot *b)
{
	struct tt_boot_params *p = &b->params;
	struct tt_dialer *d = &b->dialer;
	int err, i;

	if (d->kind == TT_LINK_TREE)
		return 0; /* set by rank 0 */
	if (p->boot_dir[0]) {
		err = tt_bootdir_read(p);
		if (err)
			return err;
		memcpy(b->self.job, p->job, sizeof(b->self.job));
		memcpy(b->self.secret, p->secret, sizeof(b->self.secret));
	}
	err = tt_addr_resolve(p->store, d->addrs, &d->n);
	for (i = 0; !err && i < d->n; i++)
		err = tt_boot_check_secret(p, (struct sockaddr *)&d->addrs[i].sa);
	return err;
}

static void pause_dialer(struct tt_boot *b)
{
	struct tt_dialer *d = &b->dialer;

	d->i = 0;
	d->next_try = tt_deadline_ms(d->pause_ms);
	d->pause_ms = d->pause_ms * 2 < PAUSE_MAX_MS ? d->pause_ms * 2 : PAUSE_MAX_MS;
}

static int64_t dial_ms(const struct tt_boot *b)
{
	if (b->phase == TT_PH_UP)
		return b->params.heartbeat_limit < DIAL_MS ? b->params.heartbeat_limit : DIAL_MS;
	return b->params.boot_dir[0] ? DIAL_DIR_MS : DIAL_MS;
}

/*
 * A guest gets rank 0's address when rank 0 listens already: no listener means that rank 0 has
 * given up.
 */
static bool given_up(struct tt_boot *b, int err)
{
	if (err != -ECONNREFUSED || !b->params.gate || b->dialer.kind != TT_LINK_JOIN)
		return false;
	tt_start_fail(b, -TUTTI_EBOOT, 0, NULL, "rank 0 at %s has given up the start",
		      b->params.store);
	return true;
}

void tt_dial_timer(struct tt_boot *b, uint64_t now)
{
	struct tt_dialer *d = &b->dialer;
	struct sockaddr *sa;
	int err;

	if (d->link || now < d->next_try)
		return;
	if (d->i == 0) {
		err = dial_targets(b);
		if (err == -TUTTI_EAUTH) {
			tt_start_fail(b, err, -1, NULL, "%s", tt_fail_text(err));
			return;
		}
		if (err) {
			snprintf(d->last, sizeof(d->last), "%s", tt_fail_text(err));
			pause_dialer(b);
			return;
		}
	}
	sa = (struct sockaddr *)&d->addrs[d->i].sa;
	err = tt_link_connect(sa, d->addrs[d->i].len, d->kind, d->peer, &b->self, &tt_ctl_link_ops,
			      b, tt_deadline_ms(dial_ms(b)), &d->link);
	if (!err) {
		tt_ctl_add_link(b, d->link);
		return;
	}
	d->link = NULL;
	if (err == -ENOMEM)
		tt_start_no_memory(b);
	if (given_up(b, err))
		return;
	if (err == -ENETUNREACH && b->params.broken) { /* perhaps for this very reason */
		tt_start_refuse(b);
		return;
	}
	b->out_of_files |= err == -EMFILE || err == -ENFILE;
	snprintf(d->last, sizeof(d->last), "%s", strerror(-err));
	if (b->phase == TT_PH_UP && !tt_tree_dial_failed(b, err, d->last))
		return;
	if (++d->i >= d->n)
		pause_dialer(b);
}

void tt_dial_lost(struct tt_boot *b, struct tt_link *link)
{
	struct tt_dialer *d = &b->dialer;

	d->link = NULL;
	if (b->phase == TT_PH_UP && d->active && tt_tree_dial_failed(b, link->err, link->why))
		pause_dialer(b);
	if (b->phase >= TT_PH_UP)
		return;
	if (link->err == -TUTTI_EAUTH && !b->params.boot_dir[0]) {
		tt_start_fail(b, -TUTTI_EAUTH, d->peer, NULL,
			      "rank %d at %s and rank %d do not share a secret: %s; give all ranks "
			      "the same "
			      "TUTTI_SECRET_FILE",
			      d->peer, link->peer_addr, b->rank, link->why);
		return;
	}
	if (given_up(b, link->err))
		return;
	snprintf(d->last, sizeof(d->last), "%s: %s", link->peer_addr, link->why);
	if (++d->i >= d->n)
		pause_dialer(b);
}

void tt_dial(struct tt_boot *b, enum tt_link_kind kind, int peer)
{
	struct tt_dialer *d = &b->dialer;

	d->active = true;
	d->kind = kind;
	d->peer = peer;
	d->i = 0;
	d->link = NULL;
	d->pause_ms = PAUSE_MIN_MS;
	d->next_try = 0;
}

static void send_card(struct tt_boot *b)
{
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	const struct tt_rank_info *me = &b->ranks[b->rank];

	tt_put_u(&k, me->card_len, 2);
	tt_put(&k, me->card, me->card_len);
	tt_link_send(b->join, TT_F_CARD, buf, k.len);
}

void tt_join_enter(struct tt_boot *b)
{
	if (b->phase == TT_PH_JOIN && b->join)
		send_card(b);
}

void tt_join_open(struct tt_boot *b, struct tt_link *link)
{
	unsigned char buf[TT_FRAME_MAX];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

	b->dialer.active = false;
	b->dialer.link = NULL;
	b->join = link;
	b->store = b->dialer.addrs[b->dialer.i];
	memcpy(b->self.job, link->hello.job, sizeof(b->self.job));
	if (b->params.broken) {
		tt_start_refuse(b);
		return;
	}
	tt_put_addr(&k, &b->local);
	tt_put_str(&k, b->host);
	tt_link_send(link, TT_F_JOIN, buf, k.len);
	if (b->entered)
		send_card(b);
}

static void on_parent(struct tt_boot *b, struct tt_unpack *u)
{
	int parent = (int)(uint32_t)tt_get_u(u, 4);
	struct tt_addr addr;

	tt_get_addr(u, &addr);
	if (u->bad || parent != tt_tree_parent(b->rank) || (parent && !addr.len)) {
		tt_start_fail(b, -TUTTI_EBOOT, 0, NULL, "rank 0 sent rank %d a malformed parent",
			      b->rank);
		return;
	}
	b->phase = TT_PH_TREE;
	tt_dial(b, TT_LINK_TREE, parent);
	b->dialer.addrs[0] = parent ? addr : b->store;
	b->dialer.n = 1;
}

static void on_error(struct tt_boot *b, struct tt_unpack *u)
{
	struct tutti_error_info *e = &b->error;

	*e = (struct tutti_error_info){.size = sizeof(*e)};
	snprintf(e->call, sizeof(e->call), "init");
	e->code = (int)(uint32_t)tt_get_u(u, 4);
	e->rank = (int)(uint32_t)tt_get_u(u, 4);
	tt_get_str(u, e->host, sizeof(e->host));
	tt_get_str(u, e->text, sizeof(e->text));
	if (e->code >= 0)
		e->code = -TUTTI_EBOOT;
	tt_note_files(b);
	b->phase = TT_PH_END;
}

void tt_join_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		   size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};

	if (b->phase == TT_PH_UP || b->phase == TT_PH_BYE || b->phase == TT_PH_END)
		return;
	if (type == TT_F_ERROR)
		on_error(b, &u);
	else if (type == TT_F_PARENT && b->phase == TT_PH_JOIN)
		on_parent(b, &u);
	else if (type == TT_F_DONE)
		b->done = true;
	else if (b->phase != TT_PH_FAIL)
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

void tt_join_lost(struct tt_boot *b, struct tt_link *link)
{
	if (link != b->join)
		return;
	b->join = NULL;
	if (b->phase == TT_PH_FAIL)
		b->phase = TT_PH_END; /* with this rank's error */
	else if (!b->done)
		tt_start_fail(b, -TUTTI_EBOOT, 0, NULL,
			      "rank 0 at %s was lost during the start: %s", link->peer_addr,
			      link->why);
}

void tt_join_timeout(struct tt_boot *b)
{
	const struct tt_dialer *d = &b->dialer;
	long long ms = b->params.init_timeout;

	if (b->phase == TT_PH_JOIN && !b->join)
		tt_start_fail(
			b, -TUTTI_EBOOT, 0, NULL,
			"rank 0 was not reached at %s (%s) within %lld ms (TUTTI_INIT_TIMEOUT): %s",
			b->params.store[0] ? b->params.store : b->params.boot_dir, b->params.origin,
			ms, d->last[0] ? d->last : "no answer");
	else if (d->active)
		tt_start_fail(b, -TUTTI_EBOOT, d->peer, NULL,
			      "rank %d could not connect to rank %d, its parent in the control "
			      "tree, within %lld "
			      "ms (TUTTI_INIT_TIMEOUT): %s",
			      b->rank, d->peer, ms, d->last[0] ? d->last : "no answer");
	else
		tt_start_fail(b, -ETIMEDOUT, -1, NULL,
			      "not all ranks were there within %lld ms (TUTTI_INIT_TIMEOUT)", ms);
}
