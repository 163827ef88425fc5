/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store: rank 0's collecting side of the start.
 *
 * A joining rank with a wrong number, job size or version is an error on all ranks, as the job
 * cannot start. A connection that fails authentication belongs to no rank and changes nothing.
 * When a deadline passes, here or at a joined rank, all ranks receive the names of the missing
 * ranks.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/boot/control/control.h"
#include "lib/boot/control/control_tree.h"
#include "lib/boot/rendezvous/bootdir.h"
#include "lib/boot/rendezvous/pack.h"

/* The hello is authentic: checks that it belongs to this job and is new. */
static bool admit(struct tt_boot *b, const struct tt_link *link)
{
	const struct tt_hello *h = &link->hello;

	if (h->proto != TT_BOOT_PROTO || strcmp(h->version, b->self.version))
		tt_start_fail(b, -TUTTI_EVERSION, h->rank, NULL,
			      "rank %d (%s) runs tutti %s (protocol %u), rank 0 runs tutti %s "
			      "(protocol %u); "
			      "all ranks must run the same version",
			      h->rank, link->peer_addr, h->version, h->proto, b->self.version,
			      TT_BOOT_PROTO);
	else if (h->nranks != b->nranks)
		tt_start_fail(
			b, -TUTTI_EBOOT, h->rank, NULL,
			"rank %d (%s) was told that the job has %d ranks, rank 0 that it has %d",
			h->rank, link->peer_addr, h->nranks, b->nranks);
	else if (h->rank < 1 || h->rank >= b->nranks)
		tt_start_fail(
			b, -TUTTI_EBOOT, -1, NULL,
			"a process (%s) joined as rank %d%s; the ranks of this job are 0 to %d",
			link->peer_addr, h->rank, h->rank ? "" : ", which is already here",
			b->nranks - 1);
	else if (b->ranks[h->rank].join)
		tt_start_fail(b, -TUTTI_EBOOT, h->rank, b->ranks[h->rank].host,
			      "two processes joined as rank %d of %d: one on %s, and one from %s",
			      h->rank, b->nranks,
			      b->ranks[h->rank].host ? b->ranks[h->rank].host : "another host",
			      link->peer_addr);
	else
		return true;
	return false;
}

/* All ranks have joined: this is a rank taken for dead and restarted, or one too many. */
static void turn_away(struct tt_link *link)
{
	struct tutti_error_info e = {.code = -TUTTI_EBOOT, .rank = link->peer};

	snprintf(e.text, sizeof(e.text),
		 "the job runs already, and rank %d has been in it; a new process joins by "
		 "TUTTI_JOIN=1 "
		 "(tutti_comm_grow)",
		 link->peer);
	tt_send_error(&e, link);
	tt_link_close_after(link, tt_deadline_ms(1000));
	tt_warn("a process (%s) wants to join as rank %d, and was turned away: the job runs "
		"already",
		link->peer_addr, link->peer);
}

void tt_store_open(struct tt_boot *b, struct tt_link *link)
{
	if (b->phase == TT_PH_UP) {
		turn_away(link);
		return;
	}
	if (b->phase == TT_PH_FAIL) {
		int r = link->hello.rank;

		if (r > 0 && r < b->nranks && !b->ranks[r].join) {
			b->ranks[r].join = link;
			b->njoined++;
		}
		tt_send_error(&b->error, link);
		tt_link_close_after(link, b->drain_deadline);
		return;
	}
	if (b->phase > TT_PH_FAIL || !admit(b, link))
		return;
	b->ranks[link->peer].join = link;
}

static void send_parent(struct tt_boot *b, int rank)
{
	int parent = tt_tree_parent(rank);
	unsigned char buf[64];
	struct tt_pack k = {.p = buf, .cap = sizeof(buf)};
	struct tt_addr none = {0};

	tt_put_u(&k, (unsigned)parent, 4);
	tt_put_addr(&k, parent ? &b->ranks[parent].listen : &none);
	tt_link_send(b->ranks[rank].join, TT_F_PARENT, buf, k.len);
}

/* When all cards are here, the tree can be formed. */
static void check_all(struct tt_boot *b)
{
	int r;

	if (b->njoined < b->nranks - 1 || !b->entered)
		return;
	b->phase = TT_PH_TREE;
	b->nknown = b->nranks;
	for (r = 1; r < b->nranks; r++)
		send_parent(b, r);
}

void tt_store_enter(struct tt_boot *b)
{
	if (b->phase == TT_PH_JOIN)
		check_all(b);
}

static void malformed(struct tt_boot *b, const struct tt_link *link)
{
	tt_start_fail(b, -TUTTI_EBOOT, link->peer, NULL, "rank %d sent a malformed join",
		      link->peer);
}

static void no_memory(struct tt_boot *b)
{
	tt_start_fail(b, -ENOMEM, 0, b->host,
		      "rank 0 has no memory for the table of ranks; " TT_RAISE_MEMORY);
}

static void on_join(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u)
{
	struct tt_rank_info *info = &b->ranks[link->peer];
	char host[64];

	tt_get_addr(u, &info->listen);
	tt_get_str(u, host, sizeof(host));
	if (u->bad || info->host || !info->listen.len)
		malformed(b, link);
	else if (tt_tree_entry(b, link->peer, host, "", 0))
		no_memory(b);
	else
		tt_debug("rank %d is there, on %s (%s)", link->peer, host, link->peer_addr);
}

static void on_card(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u)
{
	struct tt_rank_info *info = &b->ranks[link->peer];
	size_t n = (size_t)tt_get_u(u, 2);
	const void *card = tt_get(u, n);

	if (u->bad || n > TT_CARD_MAX || !info->host || info->joined) {
		malformed(b, link);
		return;
	}
	if (tt_tree_entry(b, link->peer, info->host, card, n)) {
		no_memory(b);
		return;
	}
	info->joined = true;
	b->njoined++;
	check_all(b);
}

static void on_error(struct tt_boot *b, struct tt_link *link, struct tt_unpack *u)
{
	int code = (int)(uint32_t)tt_get_u(u, 4), rank = (int)(uint32_t)tt_get_u(u, 4);
	char host[64], text[400], who[80];

	tt_get_str(u, host, sizeof(host));
	tt_get_str(u, text, sizeof(text));
	if (code == -ETIMEDOUT) {
		snprintf(who, sizeof(who), " of rank %d's start", link->peer);
		tt_store_timeout(b, who);
	} else {
		tt_start_fail(b, code < 0 ? code : -TUTTI_EBOOT, rank, host, "%s", text);
	}
}

void tt_store_frame(struct tt_boot *b, struct tt_link *link, int type, const unsigned char *data,
		    size_t len)
{
	struct tt_unpack u = {.p = data, .len = len};

	if (b->phase > TT_PH_TREE)
		return;
	if (type == TT_F_JOIN && b->phase == TT_PH_JOIN)
		on_join(b, link, &u);
	else if (type == TT_F_CARD && b->phase == TT_PH_JOIN)
		on_card(b, link, &u);
	else if (type == TT_F_ERROR)
		on_error(b, link, &u);
	else
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

void tt_store_lost(struct tt_boot *b, struct tt_link *link)
{
	int rank = link->peer;

	if (rank < 1 || rank >= b->nranks || b->ranks[rank].join != link)
		return;
	b->ranks[rank].join = NULL;
	if (b->phase >= TT_PH_UP)
		return;
	tt_start_fail(b, -TUTTI_EBOOT, rank, b->ranks[rank].host, "rank %d%s%s (%s) %s: %s", rank,
		      b->ranks[rank].host ? " on " : "",
		      b->ranks[rank].host ? b->ranks[rank].host : "", link->peer_addr,
		      b->ranks[rank].joined ? "was lost during the start"
					    : "ended before it joined",
		      link->why);
	b->njoined++; /* needs no answer */
}

/* Ranks that have read this rank 0's file before it was replaced reach it in less. */
#define REPLACED_MS 1000
#define EACH_ITS_OWN                                                                               \
	"give each rank its own TUTTI_RANK, and each job its own directory or TUTTI_JOB_ID"

/* Rank 0 itself joins when its transports are open. */
static bool missing(const struct tt_boot *b, int rank)
{
	return rank ? !b->ranks[rank].joined : !b->entered;
}

static bool not_ready(const struct tt_boot *b, int rank)
{
	int i = rank - 1; /* children of rank 0 are 1 .. TT_CTL_ARITY */

	return i >= 0 && i < b->nchildren && !b->child[i].ready;
}

void tt_store_timeout(struct tt_boot *b, const char *who)
{
	char list[200], refused[220] = "", before[512] = "", limit[32], at[64];
	long long ms = b->params.init_timeout;

	if (b->phase > TT_PH_TREE)
		return;
	snprintf(limit, sizeof(limit), ms % 1000 ? "%lld ms" : "%lld s",
		 ms % 1000 ? ms : ms / 1000);
	if (b->refused)
		snprintf(refused, sizeof(refused),
			 "; %u connections were refused for a wrong secret, the last "
			 "from %s",
			 b->refused, b->refused_text);
	if (b->before[0])
		snprintf(before, sizeof(before),
			 "; the file in TUTTI_BOOT_DIR=%s was of %s, another rank 0; " EACH_ITS_OWN,
			 b->params.boot_dir, b->before);
	if (b->phase == TT_PH_JOIN) {
		tt_rank_list(b, missing, list, sizeof(list));
		tt_addr_text((struct sockaddr *)&b->local.sa, at, sizeof(at));
		tt_start_fail(b, -TUTTI_EBOOT, -1, NULL,
			      "rank %s of %d did not join within %s%s (TUTTI_INIT_TIMEOUT); rank 0 "
			      "listens on "
			      "%s%s%s",
			      list, b->nranks, limit, who, at, refused, before);
	} else {
		tt_rank_list(b, not_ready, list, sizeof(list));
		tt_start_fail(b, -TUTTI_EBOOT, -1, NULL,
			      "the control tree did not stand within %s%s (TUTTI_INIT_TIMEOUT): "
			      "%s%s%s",
			      limit, who, list[0] ? "rank " : "", list,
			      list[0] ? ", or a rank below, was not ready"
				      : "all ranks below were ready, and rank 0 has not heard from "
					"others yet");
	}
	b->drain_deadline = tt_deadline_ms(1000);
	b->njoined = b->nranks - 1; /* no other rank is waited for */
}

/* Whether a rank has yet to find rank 0. */
static bool awaited(const struct tt_boot *b)
{
	int r;

	for (r = 0; r < b->nranks && b->ranks[r].host; r++)
		;
	return r < b->nranks;
}

void tt_store_look(struct tt_boot *b, uint64_t now)
{
	char other[96];

	if (b->phase != TT_PH_JOIN || b->rank || !b->params.boot_dir[0])
		return;
	if (!b->replaced_at || !awaited(b) || !tt_bootdir_other(&b->params, other, sizeof(other)))
		b->replaced_at = now;
	else if (now - b->replaced_at > REPLACED_MS * TT_MS)
		tt_start_fail(b, -TUTTI_EBOOT, -1, NULL,
			      "TUTTI_BOOT_DIR=%s: process %d on %s and %s both start there as rank "
			      "0; " EACH_ITS_OWN,
			      b->params.boot_dir, (int)getpid(), b->host, other);
}

void tt_store_done(struct tt_boot *b)
{
	int r;

	for (r = 1; r < b->nranks; r++) {
		if (!b->ranks[r].join)
			continue;
		tt_link_send(b->ranks[r].join, TT_F_DONE, NULL, 0);
		tt_link_close_after(b->ranks[r].join, tt_deadline_ms(2000));
		b->ranks[r].join = NULL;
	}
}

bool tt_store_all_told(struct tt_boot *b)
{
	struct tt_list *pos, *tmp;

	if (b->njoined < b->nranks - 1)
		return false;
	tt_list_each(pos, tmp, &b->links) if (tt_container(pos, struct tt_link, node)->kind ==
					      TT_LINK_JOIN) return false;
	return true;
}
