/* SPDX-License-Identifier: BSD-3-Clause */
/* Small networks of ends inside one process: opening, connecting, polling, waiting. */
#include "tests/conform/conform.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conform/loop.h"

#define EVENTS 16

static struct tt_env env;

static void set_text(struct tt_env_value *value, const char *text)
{
	free((char *)value->text);
	value->text = strdup(text);
	value->is_set = 1;
}

/* The configuration as a context would hand it down, not through the process environment. */
static bool load_env(void)
{
	if (env.rank.text)
		return true;
	if (tt_env_load(&env))
		return false;
	if (config->ofi_ep)
		set_text(&env.ofi_ep, config->ofi_ep);
	if (config->ofi_provider)
		set_text(&env.ofi_provider, config->ofi_provider);
	if (config->verbs_qps)
		env.verbs_qps.number = config->verbs_qps;
	env.verbs_timeout.number = 13; /* where an end that is not ready yet is met on purpose */
	return true;
}

void net_set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
	tt_env_free(&env);
	memset(&env, 0, sizeof(env));
}

const struct tt_tp_ops *find_transport(void)
{
	int i;

	if (!strcmp(config->transport, "loop"))
		return &loop_transport;
	for (i = 0; tt_transports[i]; i++)
		if (!strcmp(tt_transports[i]->name, config->transport))
			return tt_transports[i];
	return NULL;
}

static struct tt_tp_params params_of(int rank)
{
	static uint64_t random = 42;
	struct tt_tp_params params = {.env = &env, .rank = rank, .local_addr = "127.0.0.1"};

	if (env.iface.text[0]) /* an address, where loopback reaches no device */
		params.local_addr = env.iface.text;
	random += (uint64_t)getpid() << 32 ^ tt_now_ns();
	params.cookie[0] = tt_random(&random);
	params.cookie[1] = tt_random(&random);
	return params;
}

bool available(void)
{
	const struct tt_tp_ops *ops = find_transport();
	struct tt_tp_device dev[16];
	struct tt_tp_params params;
	int n, i;

	if (!ops) {
		tt_skip("transport %s is not compiled in", config->transport);
		return false;
	}
	TT_CHECK(load_env());
	params = params_of(0);
	memset(dev, 0, sizeof(dev));
	n = ops->query(&params, dev, 16);
	for (i = 0; i < n && i < 16; i++)
		if (dev[i].usable)
			return true;
	if (n > 0)
		tt_skip("transport %s is not usable here: %s", config->name, dev[0].why);
	else
		tt_skip("transport %s finds no device here", config->name);
	return false;
}

void fill(uint8_t *p, size_t len, uint64_t salt)
{
	uint64_t word = 0;
	size_t i;

	for (i = 0; i < len; i++) {
		if (i % 8 == 0)
			word = tt_hash_add(salt, i);
		p[i] = (uint8_t)(word >> i % 8 * 8);
	}
}

bool mem_new(struct mem *mem, size_t len, bool memfd)
{
	size_t page = 4096, total = 2 * GUARD + (len + page - 1) / page * page;

	*mem = (struct mem){.len = len, .fd = -1};
	if (memfd) {
		mem->fd = memfd_create("conform", MFD_CLOEXEC);
		if (mem->fd < 0 || ftruncate(mem->fd, (off_t)total))
			return false;
	}
	mem->map = mmap(NULL, total, PROT_READ | PROT_WRITE,
			memfd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, mem->fd, 0);
	if (mem->map == MAP_FAILED)
		return false;
	mem->addr = mem->map + GUARD;
	memset(mem->map, GUARD_BYTE, GUARD);
	memset(mem->addr + len, GUARD_BYTE, GUARD);
	return true;
}

int mem_reg_access(struct mem *mem, struct tt_tp *tp, unsigned access)
{
	struct tt_mem m = {.addr = mem->addr,
			   .len = mem->len,
			   .memfd = mem->fd,
			   .memfd_off = mem->fd < 0 ? 0 : GUARD};
	int err = tp->ops->reg(tp, &m, access, &mem->mr);

	TT_CHECK(err || mem->mr->tp == tp);
	return err;
}

int mem_reg(struct mem *mem, struct tt_tp *tp)
{
	return mem_reg_access(mem, tp, TT_ACCESS_READ | TT_ACCESS_WRITE);
}

void mem_check_guards(const struct mem *mem)
{
	size_t i, bad = 0;

	for (i = 0; i < GUARD; i++)
		bad += (mem->map[i] != GUARD_BYTE) + (mem->addr[mem->len + i] != GUARD_BYTE);
	TT_CHECK(!bad);
}

void mem_free(struct mem *mem)
{
	size_t page = 4096;

	if (!mem->map)
		return;
	mem_check_guards(mem);
	if (mem->mr)
		TT_CHECK(!mem->mr->tp->ops->dereg(mem->mr));
	munmap(mem->map, 2 * GUARD + (mem->len + page - 1) / page * page);
	if (mem->fd >= 0)
		close(mem->fd);
	memset(mem, 0, sizeof(*mem));
}

static void fault_text(char *text, size_t size)
{
	static const char *const character[] = {"delay=0.3,reorder=0.5,again=0.3,finish=1,hold=0.3",
						"delay=0.05:2000,reorder=0.9,again=0.05",
						"reorder=0.2,again=0.8,finish=1,hold=0.9"};

	snprintf(text, size, "seed=%u,%s", seed, character[seed % 3]);
}

static bool node_open(struct node *node, int id)
{
	char text[128];
	int err;

	node->id = id;
	node->params = params_of(id);
	fault_text(text, sizeof(text));
	if (faulty)
		err = tt_fault_open(find_transport(), text, &node->params, &node->tp);
	else
		err = find_transport()->open(&node->params, &node->tp);
	TT_CHECK(!err);
	if (err) {
		node->tp = NULL;
		printf("  open: %s\n", tt_fail_text(err));
		return false;
	}
	if (!mem_new(&node->tx, RX_SIZE, true) || !mem_new(&node->rx, RX_SIZE, true) ||
	    mem_reg(&node->tx, node->tp) || mem_reg(&node->rx, node->tp)) {
		TT_CHECK(!"memory can be registered");
		return false;
	}
	return true;
}

bool net_open(struct net *net, int nnodes)
{
	int i;

	memset(net, 0, sizeof(*net));
	if (!available())
		return false;
	if (config->one_process && !strcmp(config->transport, "self"))
		nnodes = 1;
	net->nnodes = nnodes;
	for (i = 0; i < nnodes; i++)
		if (!node_open(&net->node[i], i)) {
			net_close(net);
			return false;
		}
	return true;
}

static bool link_open(struct link *link, struct node *node, struct node *to)
{
	int err;

	memset(link, 0, sizeof(*link));
	link->node = node;
	link->to = to;
	link->msgs = calloc(MSGS_MAX, sizeof(*link->msgs));
	link->blob_len = sizeof(link->blob);
	err = node->tp->ops->ep_open(node->tp, &link->ep, link->blob, &link->blob_len);
	TT_CHECK(!err);
	if (err) {
		link->ep = NULL;
		return false;
	}
	TT_CHECK(link->blob_len <= TT_TP_BLOB_MAX);
	TT_CHECK(link->ep->tp == node->tp);
	link->ep->user = link;
	return true;
}

bool net_link(struct net *net, int from, int to)
{
	struct node *a = &net->node[from % net->nnodes], *b = &net->node[to % net->nnodes];
	int ends = a == b ? 1 : 2;

	net->nlinks += ends;
	if (!link_open(&net->link[net->nlinks - ends], a, b))
		return false;
	return ends == 1 || link_open(&net->link[net->nlinks - 1], b, a);
}

int net_connect(struct link *link, const struct link *peer, bool active)
{
	return link->node->tp->ops->ep_connect(link->ep, peer->blob, peer->blob_len, active);
}

bool net_up(struct net *net, int first)
{
	struct link *x = &net->link[first];
	struct link *y = net->nnodes == 1 ? x : x + 1;

	/*
	 * The end that was asked first, as channels do it; test_connect_orders has the other
	 * orders.
	 */
	if (y != x)
		TT_CHECK(!net_connect(y, x, false));
	TT_CHECK(!net_connect(x, y, true));
	WAIT(net, x->up && y->up);
	return x->up && y->up;
}

bool net_pair(struct net *net)
{
	if (!net_open(net, 2))
		return false;
	if (net_link(net, 0, 1) && net_up(net, 0))
		return true;
	net_close(net);
	return false;
}

bool net_triangle(struct net *net)
{
	if (!net_open(net, 3))
		return false;
	if (net->nnodes == 1 && net_link(net, 0, 0) && net_up(net, 0))
		return true;
	if (net->nnodes == 3 && net_link(net, 0, 1) && net_link(net, 1, 2) && net_link(net, 2, 0) &&
	    net_up(net, 0) && net_up(net, 2) && net_up(net, 4))
		return true;
	net_close(net);
	return false;
}

void link_close(struct link *link)
{
	if (link->ep)
		link->node->tp->ops->ep_close(link->ep);
	free(link->msgs);
	memset(link, 0, sizeof(*link));
}

void net_close(struct net *net)
{
	int i;

	for (i = 0; i < net->nlinks; i++)
		link_close(&net->link[i]);
	for (i = 0; i < net->nnodes; i++) {
		mem_free(&net->node[i].tx);
		mem_free(&net->node[i].rx);
		if (net->node[i].tp)
			net->node[i].tp->ops->close(net->node[i].tp);
	}
	memset(net, 0, sizeof(*net));
}

static void take_done(const struct tt_event *ev)
{
	struct op *op = ev->user;

	TT_CHECK(op != NULL);
	if (!op)
		return;
	TT_CHECK(!op->dead);
	TT_CHECK(!op->done);
	TT_CHECK(ev->status <= 0);
	op->done++;
	op->status = ev->status;
}

static void take_msg(struct link *link, const struct tt_event *ev)
{
	struct message *m = &link->msgs[link->nmsgs];

	TT_CHECK(ev->len <= TT_TP_MSG_MAX && link->nmsgs < MSGS_MAX);
	if (ev->len > TT_TP_MSG_MAX || link->nmsgs >= MSGS_MAX)
		return;
	m->len = ev->len;
	if (ev->len)
		memcpy(m->data, ev->data, ev->len);
	link->nmsgs++;
}

static void take(struct node *node, const struct tt_event *ev)
{
	struct link *link;

	if (ev->kind == TT_EV_DONE) {
		take_done(ev);
		return;
	}
	if (ev->kind == TT_EV_NOTE) {
		node->nnotes++;
		node->note = ev->note;
		if (node->on_note)
			node->on_note(node, ev->note);
		return;
	}
	TT_CHECK(ev->ep != NULL);
	if (!ev->ep)
		return;
	link = ev->ep->user;
	TT_CHECK(link != NULL && link->ep == ev->ep && link->node == node);
	if (!link || link->ep != ev->ep)
		return;
	TT_CHECK(!link->down); /* nothing of an endpoint follows its DOWN */
	if (ev->kind == TT_EV_UP) {
		TT_CHECK(!link->up);
		link->up++;
	} else if (ev->kind == TT_EV_DOWN) {
		TT_CHECK(ev->status < 0);
		link->down++;
		link->status = ev->status;
		snprintf(link->why, sizeof(link->why), "%s",
			 ev->data ? (const char *)ev->data : tt_fail_text(ev->status));
	} else {
		TT_CHECK(ev->kind == TT_EV_MSG);
		take_msg(link, ev);
	}
}

void poll_node(struct net *net, struct node *node, int max)
{
	struct tt_event events[EVENTS];
	int n, i;

	memset(events, 0xee, sizeof(events));
	n = node->tp->ops->poll(node->tp, events, max);
	TT_CHECK(n >= 0 && n <= max);
	for (i = 0; i < n; i++)
		take(node, &events[i]);
}

void pump(struct net *net)
{
	int i, k;

	net->turn++;
	for (i = 0; i < net->nnodes; i++) {
		k = (i + net->turn) % net->nnodes;
		/* now and then room for one event only: the rest must wait, not vanish */
		poll_node(net, &net->node[k], net->turn % 7 ? EVENTS : 1);
	}
}

void pump_ms(struct net *net, int ms)
{
	uint64_t deadline = tt_deadline_ms(ms);

	while (!tt_passed(deadline))
		pump(net);
}

struct tt_rma rma_put(struct link *link, const void *local, size_t len, void *remote,
		      const struct tt_rkey *rkey, int64_t note, struct op *op)
{
	struct tt_rma rma = {.local = (void *)(uintptr_t)local,
			     .len = len,
			     .mr = link->node->tx.mr,
			     .remote = (uint64_t)(uintptr_t)remote,
			     .rkey = rkey,
			     .note = note < 0 ? 0 : (uint32_t)note,
			     .flags = note < 0 ? 0 : TT_RMA_NOTE,
			     .user = op};

	memset(op, 0, sizeof(*op));
	return rma;
}

static int started(struct op *op, int rc)
{
	if (rc == TT_STARTED)
		return rc;
	TT_CHECK(!op->done); /* an event came although none was due */
	op->done = 1;
	op->status = rc < 0 ? rc : 0;
	return rc;
}

int put(struct net *net, struct link *link, const void *local, size_t len, void *remote,
	const struct tt_rkey *rkey, int64_t note, struct op *op)
{
	struct tt_rma rma = rma_put(link, local, len, remote, rkey, note, op);
	uint64_t deadline = wait_deadline();
	int rc;

	while ((rc = link->ep->ops->put(link->ep, &rma)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	timeouts += rc == -EAGAIN;
	return started(op, rc == -EAGAIN ? -ETIMEDOUT : rc);
}

int get_rma(struct net *net, struct link *link, const struct tt_rma *rma)
{
	uint64_t deadline = wait_deadline();
	int rc;

	while ((rc = link->ep->ops->get(link->ep, rma)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	timeouts += rc == -EAGAIN;
	return started(rma->user, rc == -EAGAIN ? -ETIMEDOUT : rc);
}

int get(struct net *net, struct link *link, void *local, size_t len, const void *remote,
	const struct tt_rkey *rkey, struct op *op)
{
	struct tt_rma rma = rma_put(link, local, len, (void *)(uintptr_t)remote, rkey, -1, op);

	return get_rma(net, link, &rma);
}

int amo(struct net *net, struct link *link, enum tt_amo_op kind, uint64_t operand, uint64_t compare,
	uint64_t *result, void *remote, const struct tt_rkey *rkey, struct op *op)
{
	struct tt_amo a = {.op = kind,
			   .operand = operand,
			   .compare = compare,
			   .result = result,
			   .mr = link->node->tx.mr,
			   .remote = (uint64_t)(uintptr_t)remote,
			   .rkey = rkey,
			   .user = op};
	uint64_t deadline = wait_deadline();
	int rc;

	memset(op, 0, sizeof(*op));
	while ((rc = link->ep->ops->amo(link->ep, &a)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	timeouts += rc == -EAGAIN;
	return started(op, rc == -EAGAIN ? -ETIMEDOUT : rc);
}

int msg(struct net *net, struct link *link, const void *data, size_t len)
{
	uint64_t deadline = wait_deadline();
	int rc;

	while ((rc = link->ep->ops->msg(link->ep, data, len)) == -EAGAIN && !tt_passed(deadline))
		pump(net);
	timeouts += rc == -EAGAIN;
	return rc;
}

int settle(struct net *net, struct op *op)
{
	WAIT(net, op->done);
	return op->done ? op->status : -ETIMEDOUT;
}
