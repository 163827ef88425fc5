/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions about rails that need no device: which ports, which pairs, and each rail's share. */
#include "config.h"
#include "transports/verbs/verbs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/lists.h"

#define PAGE 4096u /* pieces begin at multiples of it */

/* ---- which ports ---- */

static void add(struct vb_choice *c, int port)
{
	int i;

	for (i = 0; i < c->n && i < VB_RAILS; i++)
		if (c->port[i] == port)
			return;
	if (c->n < VB_RAILS)
		c->port[c->n] = port;
	c->n++; /* the caller reports one too many */
}

static void TT_PRINTF(3, 4) refuse(struct vb_choice *c, int err, const char *fmt, ...)
{
	va_list ap;

	c->err = err;
	c->n = 0;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
}

/* The ports one entry names; each entry must bring one. */
static bool add_named(const struct vb_port *ports, int n, const char *name, long num,
		      struct vb_choice *c)
{
	int i, unusable = -1, before = 0;
	bool found = false;

	for (i = 0; i < n; i++) {
		if (strcmp(ports[i].name, name) || (num && ports[i].num != num))
			continue;
		if (ports[i].usable)
			add(c, i);
		else
			unusable = i;
		found = found || ports[i].usable;
		before++;
	}
	if (!before && num)
		refuse(c, -ENODEV, "TUTTI_VERBS_DEVICE: no device %s with a port %ld on this host",
		       name, num);
	else if (!before)
		refuse(c, -ENODEV, "TUTTI_VERBS_DEVICE: no device %s on this host", name);
	else if (!found)
		refuse(c, -ENODEV, "%s/%u cannot be used: %s", name, ports[unusable].num,
		       ports[unusable].why);
	return found;
}

static void select_named(const struct vb_port *ports, int n, const char *list, struct vb_choice *c)
{
	const char *at;
	char name[32];
	size_t len;
	long num;
	int i;

	for (at = list; *at; at += len + (at[len] == ',')) {
		len = tt_verbs_port_parse(at, name, &num);
		if (!len) {
			refuse(c, -EINVAL,
			       "TUTTI_VERBS_DEVICE=%.60s: must be a list of NAME or NAME:PORT",
			       list);
			return;
		}
		if (!add_named(ports, n, name, num, c))
			return;
	}
	if (c->n > VB_RAILS) {
		refuse(c, -EINVAL,
		       "TUTTI_VERBS_DEVICE=%.60s names too many ports; at most %d can be used",
		       list, VB_RAILS);
		return;
	}
	for (i = 1; i < c->n; i++)
		if (ports[c->port[i]].fabric != ports[c->port[0]].fabric) {
			refuse(c, -EINVAL,
			       "TUTTI_VERBS_DEVICE=%.60s names Ethernet and InfiniBand ports: both "
			       "cannot be "
			       "used together",
			       list);
			return;
		}
}

static bool better(const struct vb_port *a, const struct vb_port *b)
{
	return a->gbps != b->gbps ? a->gbps > b->gbps : a->distance < b->distance;
}

/* Why this one is not as good as best, in the order of the rule; NULL: it is. */
static const char *worse(const struct vb_port *port, const struct vb_port *best, int near)
{
	if (port->fabric != best->fabric)
		return best->fabric ? "up, but the fastest is an Ethernet port"
				    : "up, but the fastest is an InfiniBand port";
	if (port->gbps < best->gbps / 2)
		return "up, but less than half as fast as the fastest";
	return port->distance > near ? "up, but another is nearer" : NULL;
}

/*
 * Select the nearest ports that have the link layer and at least half the speed of the fastest one,
 * fastest first.
 */
static void select_best(struct vb_port *ports, int n, int max, struct vb_choice *c)
{
	const struct vb_port *best = NULL;
	int i, k, near = INT32_MAX;
	const char *why;

	for (i = 0; i < n; i++)
		if (ports[i].usable && (!best || better(&ports[i], best)))
			best = &ports[i];
	for (i = 0; i < n; i++)
		if (ports[i].usable && !worse(&ports[i], best, INT32_MAX) &&
		    ports[i].distance < near)
			near = ports[i].distance;
	for (i = 0; i < n; i++) {
		if (!ports[i].usable)
			continue;
		why = worse(&ports[i], best, near);
		snprintf(ports[i].why, sizeof(ports[i].why), "%s",
			 why ? why : "up, but as many as TUTTI_VERBS_RAILS allows come first");
		for (k = c->n; !why && k > 0 && ports[c->port[k - 1]].gbps < ports[i].gbps; k--)
			if (k < max)
				c->port[k] = c->port[k - 1];
		if (why || k >= max)
			continue;
		c->port[k] = i;
		c->n += c->n < max;
	}
}

/* tutti_info's text for each. */
static void explain(struct vb_port *ports, int n, const char *list, const struct vb_choice *c)
{
	double sum = 0;
	int i;

	for (i = 0; i < n; i++)
		if (ports[i].usable && !c->n) {
			ports[i].usable = false;
			snprintf(ports[i].why, sizeof(ports[i].why), "%.150s", c->why);
		} else if (ports[i].usable && *list) {
			snprintf(ports[i].why, sizeof(ports[i].why),
				 "up, but TUTTI_VERBS_DEVICE=%.60s does not name it", list);
		}
	for (i = 0; i < c->n; i++)
		sum += ports[c->port[i]].gbps;
	for (i = 0; i < c->n; i++) {
		struct vb_port *port = &ports[c->port[i]];

		if (c->n == 1)
			snprintf(port->why, sizeof(port->why), "this one is used: %s",
				 *list ? "TUTTI_VERBS_DEVICE names it"
				       : "the fastest that is up and near");
		else
			snprintf(
				port->why, sizeof(port->why),
				"this one is used: rail %d of 0 to %d, %.0f %% of a large transfer",
				i, c->n - 1, sum > 0 ? 100 * port->gbps / sum : 100.0 / c->n);
	}
}

void vb_select(struct vb_port *ports, int n, const char *list, int max, struct vb_choice *c)
{
	int i;

	*c = (struct vb_choice){.err = -ENODEV};
	if (*list)
		select_named(ports, n, list, c);
	else
		select_best(ports, n, max, c);
	for (i = 0; i < n && !c->n && !c->why[0]; i++)
		refuse(c, -ENODEV, "%s/%u cannot be used: %s", ports[i].name, ports[i].num,
		       ports[i].why);
	if (!c->n && !c->why[0])
		refuse(c, -ENODEV, "there is no RDMA device");
	explain(ports, n, list, c);
}

/* ---- which pairs ---- */

static bool same_net(const struct vb_rail_addr *a, const struct vb_rail_addr *b)
{
	static const uint8_t unknown[16];

	return a->nqp && b->nqp && a->fabric == b->fabric && !memcmp(a->net, b->net, 16) &&
	       memcmp(a->net, unknown, 16) != 0;
}

/* The place of rail i among those of its network, and the rail of b that has the same place there.
 */
static int partner(const struct vb_blob *a, uint32_t i, const struct vb_blob *b)
{
	uint32_t k;
	int place = 0;

	for (k = 0; k < i; k++)
		place += same_net(&a->rail[k], &a->rail[i]);
	for (k = 0; k < b->nrails; k++)
		if (same_net(&b->rail[k], &a->rail[i]) && !place--)
			return (int)k;
	return -1;
}

int vb_match(const struct vb_blob *ours, const struct vb_blob *theirs, int match[VB_RAILS])
{
	int n = 0;
	uint32_t i;

	for (i = 0; i < VB_RAILS; i++) {
		match[i] = i < ours->nrails ? partner(ours, i, theirs) : -1;
		n += match[i] >= 0;
	}
	if (n)
		return n;
	/* No network in common: there may be a router between rail i here and rail i there. */
	for (i = 0; i < ours->nrails && i < theirs->nrails; i++)
		if (ours->rail[i].nqp && theirs->rail[i].nqp &&
		    ours->rail[i].fabric == theirs->rail[i].fabric) {
			match[i] = (int)i;
			n++;
		}
	return n;
}

bool vb_needs_cm(const struct vb_rail_addr *ours, const struct vb_rail_addr *theirs)
{
	return !(ours->routed && theirs->routed) && !same_net(ours, theirs);
}

enum vb_way vb_way(const struct vb_blob *ours, const struct vb_blob *theirs,
		   const int match[VB_RAILS], int *rail)
{
	const struct vb_rail_addr *a, *b;
	bool cm = false;
	int i;

	for (i = 0; i < VB_RAILS; i++) {
		if (match[i] < 0)
			continue;
		*rail = i;
		a = &ours->rail[i];
		b = &theirs->rail[match[i]];
		if (a->cm != b->cm)
			return VB_WAY_DIFFER;
		cm = cm || a->cm || vb_needs_cm(a, b);
	}
	for (i = 0; cm && i < VB_RAILS; i++) {
		if (match[i] < 0)
			continue;
		*rail = i;
		if (!ours->rail[i].port)
			return VB_WAY_NO_CM_HERE;
		if (!theirs->rail[match[i]].port)
			return VB_WAY_NO_CM_THERE;
	}
	return cm ? VB_WAY_CM : VB_WAY_DIRECT;
}

/* ---- which GID, and what of a port that is down ---- */

int vb_gid_rank(const struct ibv_gid_entry *gid, bool here)
{
	static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, zero[16];
	bool link_local = gid->gid.raw[0] == 0xfe && (gid->gid.raw[1] & 0xc0) == 0x80;

	if (!here || !memcmp(gid->gid.raw, zero, 16) || gid->gid_type == IBV_GID_TYPE_IB)
		return 0;
	/* Version 2 before 1, routable addresses before others. */
	if (gid->gid_type == IBV_GID_TYPE_ROCE_V1)
		return 1;
	return link_local ? 2 : !memcmp(gid->gid.raw, v4, sizeof(v4)) ? 4 : 3;
}

bool vb_gid_is_of_mac(const uint8_t gid[16], const uint8_t mac[6])
{
	const uint8_t own[16] = {0xfe,	     0x80,   0,	     0,	   0,	 0,	 0,	 0,
				 mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

	return !memcmp(gid, own, sizeof(own));
}

enum vb_verdict vb_port_verdict(bool down, bool waited, bool others)
{
	if (!down || !waited)
		return VB_PORT_STAY;
	return others ? VB_PORT_LEAVE : VB_PORT_END;
}

uint64_t vb_bye_wait(uint64_t *from, uint64_t *left, uint64_t now, uint64_t most)
{
	if (!*from || now - *from >= 1000000000u) {
		*from = now;
		*left = most * 1000000;
	}
	return *left > 1000000 ? *left / 1000000 : 1;
}

void vb_bye_used(uint64_t *left, uint64_t ns)
{
	*left -= ns < *left ? ns : *left;
}

bool vb_holds_receives(const struct vb_qp *q)
{
	return q->rail->recvq.srq && q->receives && !q->last && !q->rail->dead && !q->rail->mute;
}

/* ---- the share of each rail ---- */

int vb_spread(const uint32_t *weight, int n, size_t len, uint64_t *sum)
{
	uint64_t total = 0;
	uint32_t least = UINT32_MAX;
	int i, m = 1;

	*sum = weight[0];
	for (i = 0; i < n; i++) {
		total += weight[i];
		least = weight[i] < least ? weight[i] : least;
		if (vb_cut(len, least, total) >= VB_SPLIT_MIN || !i) {
			m = i + 1;
			*sum = total;
		}
	}
	return m;
}

size_t vb_cut(size_t len, uint64_t part, uint64_t sum)
{
	if (part >= sum)
		return len;
	return (len / sum * part + len % sum * part / sum) / PAGE * PAGE;
}

/* ---- how ---- */

/*
 * An acknowledgement means that the target's device has the bytes, not its memory: another
 * device's write may become visible earlier. So a note for pieces over several devices, and the
 * completion of a put that may be followed by a message over another device, wait until each
 * device has answered a READ. A device answers when all earlier requests on that connection are in
 * place.
 */
bool vb_must_flush(bool placed, int rails, bool spread, unsigned flags)
{
	if (flags & TT_RMA_REMOTE)
		return !placed || rails > 1;
	return flags & TT_RMA_NOTE && spread && rails > 1;
}

/* Limits of drivers: bnxt_re 96, irdma 101, siw 80, others multiples of 16 less a header. */
int vb_inline_below(int refused)
{
	static const int steps[] = {VB_INLINE, 101, 96, 80, 64, 48, 32, 16, 8, 0};
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i] < refused)
			return steps[i];
	return -1;
}
