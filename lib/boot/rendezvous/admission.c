/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides of the gate.
 *
 *	DIR/tutti-gate, or DIR/tutti-gate-JOBID
 *
 * has the format of a boot directory's file (bootdir.c): the leader's address, a nonce of this
 * gate, and a secret if the job has none.
 *
 * Connections are those of the bootstrap (link.c), of kind 4, from a process without a rank (-1) to
 * rank 0. Frames:
 *
 *	 3 ERROR  to guest  i32 code, i32 -1, str host, str text: not this one
 *	 8 BEAT   both      empty: alive; every second
 *	17 ADMIT  to guest  u32 rank, u32 ranks of the job, u32 ms within which it must stand,
 *	                    192 bytes unique id
 *
 * A guest is an authenticated process. It waits at the gate until it is admitted; if the gate
 * closes first, it looks for the next gate. The running job does not change: its control tree does
 * not know the guests, and the secret by which they came differs from that of the job they start.
 */
#include "lib/boot/rendezvous/admission.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/boot/rendezvous/bootdir.h"
#include "lib/boot/control/control.h"
#include "lib/boot/rendezvous/discover.h"
#include "lib/boot/rendezvous/pack.h"

#define STRANGERS_MAX 64 /* unauthenticated connections, or guests beyond the wanted number */
#define HANDSHAKE_MS 5000
#define STEP_MS 100
#define BEAT_MS 1000
#define ADMIT_MS 2000 /* for guests to read their answer */
#define PAUSE_MS 100
#define RANKS_MAX (1 << 24)

struct tt_gate {
	struct tt_boot_params params; /* from the file */
	struct tt_self self;
	int fd, guests; /* wanted */
	struct tt_list links;
	int nlinks;
	struct pollfd *poll; /* [0]: the listener */
	struct tt_link **at;
	int64_t limit_ms; /* silence after which a guest counts as failed */
	bool written;
	unsigned refused;
	char refused_text[128];
};

static void set_self(struct tt_self *self, int rank, const struct tt_boot_params *params)
{
	*self = (struct tt_self){.rank = rank};
	snprintf(self->version, sizeof(self->version), "%s", tutti_version());
	memcpy(self->job, params->job, sizeof(self->job));
	memcpy(self->secret, params->secret, sizeof(self->secret));
}

/* For both ends of an open link; a handshake has a deadline instead. */
static void keep_alive(struct tt_link *link, int64_t limit_ms)
{
	uint64_t now = tt_now_ns();

	if (now >= link->deadline)
		tt_link_kill(link, -ETIMEDOUT, "the handshake took too long");
	if (link->state != TT_LINK_OPEN || link->closing)
		return;
	if (now - link->last_rx > (uint64_t)limit_ms * TT_MS)
		tt_link_kill(link, -ETIMEDOUT, "it was silent for too long");
	else if (now - link->last_tx > BEAT_MS * TT_MS)
		tt_link_send(link, TT_F_BEAT, NULL, 0);
}

/* ---- the leader ---- */

static bool is_guest(const struct tt_link *link)
{
	return link->state == TT_LINK_OPEN && !link->closing;
}

static void on_open(struct tt_link *link)
{
	struct tt_gate *g = link->owner;
	struct tutti_error_info e = {.code = -TUTTI_EVERSION, .rank = -1};

	link->deadline = TT_NEVER;
	if (link->kind != TT_LINK_GATE) {
		tt_link_kill(link, -EPROTO, "it asked for a connection of unknown kind %d",
			     (int)link->kind);
		return;
	}
	if (link->hello.proto == TT_BOOT_PROTO && !strcmp(link->hello.version, g->self.version))
		return;
	snprintf(e.text, sizeof(e.text),
		 "this process runs tutti %s, the job that it would join %s", link->hello.version,
		 g->self.version);
	tt_send_error(&e, link);
	tt_link_close_after(link, tt_deadline_ms(ADMIT_MS));
}

static void on_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	(void)data;
	if (type != TT_F_BEAT || len)
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

static const struct tt_link_ops gate_ops = {.open = on_open, .frame = on_frame};

static int write_file(struct tt_gate *g, const char *iface)
{
	struct tt_addr addr;
	int err = tt_addr_local(iface, NULL, &addr);

	if (!err)
		err = tt_addr_listen(&addr, &g->fd);
	if (err)
		return err == -EAGAIN ? -TUTTI_EBOOT : err;
	tt_addr_text((struct sockaddr *)&addr.sa, g->params.store, sizeof(g->params.store));
	err = tt_bootdir_write(&g->params);
	g->written = !err;
	return err;
}

int tt_gate_open(const struct tt_env *env, const char *iface, int guests, struct tt_gate **gate)
{
	struct tt_gate *g = calloc(1, sizeof(*g));
	size_t most = (size_t)guests + STRANGERS_MAX;
	int err;

	if (!g)
		return tt_fail(-ENOMEM, "no memory to admit new processes");
	g->fd = -1;
	g->guests = guests;
	g->limit_ms = env->heartbeat_limit.number;
	tt_list_init(&g->links);
	g->poll = calloc(most + 1, sizeof(*g->poll));
	g->at = calloc(most + 1, sizeof(struct tt_link *));
	err = g->poll && g->at ? tt_boot_gate_params(env, &g->params)
			       : tt_fail(-ENOMEM, "no memory to admit %d new processes", guests);
	if (!err && g->params.boot_secret) {
		randombytes_buf(g->params.secret, sizeof(g->params.secret));
		g->params.have_secret = true;
	}
	randombytes_buf(g->params.job, sizeof(g->params.job));
	set_self(&g->self, 0, &g->params);
	if (!err)
		err = write_file(g, iface);
	if (err) {
		tt_gate_close(g);
		return err;
	}
	*gate = g;
	return 0;
}

static void drop(struct tt_gate *g, struct tt_link *link)
{
	tt_list_del(&link->node);
	g->nlinks--;
	tt_link_free(link);
}

/* Makes room by dropping the unauthenticated connection that has waited longest. */
static bool make_room(struct tt_gate *g)
{
	struct tt_list *pos, *tmp;

	if (g->nlinks < g->guests + STRANGERS_MAX)
		return true;
	tt_list_each(pos, tmp, &g->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		if (link->state != TT_LINK_OPEN) {
			drop(g, link);
			return true;
		}
	}
	return false;
}

static void accept_some(struct tt_gate *g)
{
	struct sockaddr_storage sa;
	struct tt_link *link;
	socklen_t len;
	int i, fd;

	for (i = 0; i < STRANGERS_MAX; i++) {
		len = sizeof(sa);
		fd = accept4(g->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			poll(NULL, 0, STEP_MS); /* the listener stays readable */
		if (fd < 0)
			return;
		if (!make_room(g)) {
			close(fd);
			return;
		}
		if (tt_link_accept(fd, (struct sockaddr *)&sa, &g->self, &gate_ops, g,
				   tt_deadline_ms(HANDSHAKE_MS), &link))
			return;
		tt_link_user_timeout(link, g->limit_ms);
		tt_list_add(&g->links, &link->node);
		g->nlinks++;
	}
}

static void note_lost(struct tt_gate *g, const struct tt_link *link)
{
	tt_debug("at the gate: %s: %s", link->peer_addr, link->why);
	if (link->err != -TUTTI_EAUTH)
		return;
	g->refused++;
	snprintf(g->refused_text, sizeof(g->refused_text), "%s", link->peer_addr);
	if (!(g->refused & (g->refused - 1)))
		tt_warn("a new process at %s was turned away: %s (%u so far)", link->peer_addr,
			link->why, g->refused);
}

/* Waits for an event, at most STEP_MS. */
static void step(struct tt_gate *g)
{
	struct tt_list *pos, *tmp;
	int i, n = 1;

	g->poll[0] = (struct pollfd){.fd = g->fd, .events = POLLIN};
	tt_list_each(pos, tmp, &g->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);
		short events = tt_link_wants_out(link) ? POLLIN | POLLOUT : POLLIN;

		g->at[n] = link;
		g->poll[n++] = (struct pollfd){.fd = link->fd, .events = events};
	}
	poll(g->poll, (nfds_t)n, STEP_MS);
	for (i = 1; i < n; i++)
		if (g->poll[i].revents)
			tt_link_readable(g->at[i]);
	tt_list_each(pos, tmp, &g->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);

		keep_alive(link, g->limit_ms);
		tt_link_flush(link);
		if (link->state == TT_LINK_DEAD) {
			note_lost(g, link);
			drop(g, link);
		}
	}
	if (g->poll[0].revents)
		accept_some(g);
}

static int here(const struct tt_gate *g)
{
	struct tt_list *pos, *tmp;
	int n = 0;

	tt_list_each(pos, tmp, &g->links) n += is_guest(tt_container(pos, struct tt_link, node));
	return n;
}

static int too_few(const struct tt_gate *g)
{
	char refused[220] = "";

	if (g->refused)
		snprintf(refused, sizeof(refused),
			 "; %u were turned away for a wrong secret, the last from %s", g->refused,
			 g->refused_text);
	return tt_fail(
		-ETIMEDOUT,
		"%d of %d new processes came in time (TUTTI_JOIN=1, and TUTTI_BOOT_DIR=%s)%s",
		here(g), g->guests, g->params.boot_dir, refused);
}

int tt_gate_wait(struct tt_gate *g, uint64_t deadline, int (*stop)(void *), void *arg)
{
	int err;

	while (here(g) < g->guests) {
		err = stop(arg);
		if (err)
			return err;
		if (tt_passed(deadline))
			return too_few(g);
		step(g);
	}
	return 0;
}

void tt_gate_admit(struct tt_gate *g, int first, int nranks, int64_t boot_ms,
		   const struct tutti_unique_id *id)
{
	uint64_t until = tt_deadline_ms(ADMIT_MS);
	struct tt_list *pos, *tmp;
	unsigned char buf[12 + sizeof(*id)];
	int rank = first, waiting = g->guests;

	tt_list_each(pos, tmp, &g->links)
	{
		struct tt_link *link = tt_container(pos, struct tt_link, node);
		struct tt_pack k = {.p = buf, .cap = sizeof(buf)};

		if (!is_guest(link) || rank == nranks)
			continue;
		tt_put_u(&k, (unsigned)rank++, 4);
		tt_put_u(&k, (unsigned)nranks, 4);
		tt_put_u(&k, (uint64_t)boot_ms, 4);
		tt_put(&k, id, sizeof(*id));
		tt_link_send(link, TT_F_ADMIT, buf, k.len);
		tt_link_close_after(link, until);
	}
	sodium_memzero(buf, sizeof(buf));
	while (waiting && !tt_passed(until)) {
		step(g);
		waiting = 0;
		tt_list_each(pos, tmp, &g->links) waiting +=
			tt_container(pos, struct tt_link, node)->closing;
	}
}

void tt_gate_close(struct tt_gate *g)
{
	if (g->written)
		tt_bootdir_remove(&g->params);
	while (!tt_list_empty(&g->links))
		drop(g, tt_container(g->links.next, struct tt_link, node));
	if (g->fd >= 0)
		close(g->fd);
	sodium_memzero(&g->params, sizeof(g->params));
	sodium_memzero(&g->self, sizeof(g->self));
	free(g->poll);
	free(g->at);
	free(g);
}

/* ---- a new process ---- */

static void on_admit(struct tt_visit *v, struct tt_link *link, struct tt_unpack *u)
{
	const void *id;

	v->rank = (int)(uint32_t)tt_get_u(u, 4);
	v->nranks = (int)(uint32_t)tt_get_u(u, 4);
	v->boot_ms = (int64_t)tt_get_u(u, 4);
	id = tt_get(u, sizeof(v->id));
	if (u->bad || v->nranks < 2 || v->nranks > RANKS_MAX || v->rank < 1 ||
	    v->rank >= v->nranks || !v->boot_ms) {
		tt_link_kill(link, -EPROTO, "it sent a malformed admission");
		return;
	}
	memcpy(&v->id, id, sizeof(v->id));
	v->admitted = true;
}

static void on_refusal(struct tt_visit *v, struct tt_unpack *u)
{
	int code = (int)(uint32_t)tt_get_u(u, 4);
	char host[64], text[300];

	tt_get_u(u, 4);
	tt_get_str(u, host, sizeof(host));
	tt_get_str(u, text, sizeof(text));
	v->err = tt_fail(code < 0 ? code : -TUTTI_EBOOT, "%s", text);
}

static void visit_open(struct tt_link *link)
{
	struct tt_visit *v = link->owner;

	link->deadline = TT_NEVER;
	tt_info("waiting at the gate of a job, %s", link->peer_addr);
	snprintf(v->last, sizeof(v->last), "the job at %s did not let this process in",
		 link->peer_addr);
}

static void visit_frame(struct tt_link *link, int type, const unsigned char *data, size_t len)
{
	struct tt_visit *v = link->owner;
	struct tt_unpack u = {.p = data, .len = len};

	if (v->admitted || v->err || type == TT_F_BEAT)
		return;
	if (type == TT_F_ADMIT)
		on_admit(v, link, &u);
	else if (type == TT_F_ERROR)
		on_refusal(v, &u);
	else
		tt_link_kill(link, -EPROTO, "it sent an unexpected frame of type %d", type);
}

const struct tt_link_ops tt_visit_ops = {.open = visit_open, .frame = visit_frame};

static void wait_at(struct tt_visit *v, struct tt_link *link, uint64_t deadline)
{
	int64_t limit = v->params->heartbeat_limit;
	struct pollfd p = {.fd = link->fd};

	tt_link_user_timeout(link, limit);
	while (link->state != TT_LINK_DEAD && !v->admitted && !v->err && !tt_passed(deadline)) {
		p.events = tt_link_wants_out(link) ? POLLIN | POLLOUT : POLLIN;
		if (poll(&p, 1, tt_left_ms(deadline, STEP_MS)) > 0)
			tt_link_readable(link);
		keep_alive(link, limit);
		tt_link_flush(link);
	}
	if (link->state != TT_LINK_DEAD)
		return;
	if (link->err == -TUTTI_EAUTH)
		v->err = tt_fail(-TUTTI_EAUTH,
				 "the job at %s and this process do not share a secret: %s; give "
				 "it the job's "
				 "TUTTI_SECRET_FILE",
				 link->peer_addr, link->why);
	else if (!link->rx) /* never open */
		snprintf(v->last, sizeof(v->last), "%s: %s", link->peer_addr, link->why);
}

/* The file may be missing, or left over from a dead leader: retry later. */
static void call_once(struct tt_visit *v, uint64_t deadline)
{
	struct tt_addr addrs[TT_ADDR_MAX];
	struct tt_link *link;
	int n, err = tt_bootdir_read(v->params);

	if (!err)
		err = tt_addr_resolve(v->params->store, addrs, &n);
	if (err) {
		snprintf(v->last, sizeof(v->last), "%s", tt_fail_text(err));
		return;
	}
	set_self(&v->self, -1, v->params);
	err = tt_link_connect((struct sockaddr *)&addrs[0].sa, addrs[0].len, TT_LINK_GATE, 0,
			      &v->self, &tt_visit_ops, v, tt_deadline_ms(HANDSHAKE_MS), &link);
	if (err) {
		snprintf(v->last, sizeof(v->last), "%s: %s", v->params->store, strerror(-err));
		return;
	}
	wait_at(v, link, deadline);
	tt_link_free(link);
}

int tt_gate_enter(struct tt_boot_params *params)
{
	uint64_t deadline = tt_deadline_ms(params->init_timeout);
	struct tt_visit v = {.params = params};
	int err;

	while (!v.admitted && !v.err && !tt_passed(deadline)) {
		call_once(&v, deadline);
		if (!v.admitted && !v.err)
			poll(NULL, 0, tt_left_ms(deadline, PAUSE_MS));
	}
	if (v.admitted) {
		params->rank = v.rank;
		params->nranks = v.nranks;
		params->init_timeout = v.boot_ms;
		params->boot_dir[0] = 0;
		params->boot_secret = false;
		err = tt_unique_id_use(&v.id, params);
	} else {
		err = v.err ? v.err
			    : tt_fail(-TUTTI_EBOOT,
				      "no job has let this process in (TUTTI_JOIN=1) through "
				      "TUTTI_BOOT_DIR=%s "
				      "within %lld ms (TUTTI_INIT_TIMEOUT): %s",
				      params->boot_dir, (long long)params->init_timeout, v.last);
	}
	sodium_memzero(&v, sizeof(v));
	return err;
}
