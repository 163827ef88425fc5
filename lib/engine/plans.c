/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plans that a communicator has used, with idle requests for them, so that a repeated call
 * allocates nothing. Evicts the least recently used plans.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/engine/engine.h"

#define BUCKETS 64
#define PLANS_MAX 128

struct tt_plan_entry {
	struct tt_list bucket; /* in cache->bucket */
	struct tt_list lru;
	struct tt_list idle; /* requests */
	int users;	     /* requests in use */
	struct tt_plan_args key;
	struct tt_counts *counts;   /* of a v form: has the arrays of key and plan */
	struct tt_plan_codec codec; /* if the key has one: that of key and plan */
	struct tt_edges *edges;	    /* the same */
	struct tt_plan *plan;
};

struct tt_plan_cache {
	struct tt_list bucket[BUCKETS];
	struct tt_list lru; /* least recently used first */
	int n;
};

static uint64_t hash_array(uint64_t h, const size_t *array, int n)
{
	int i;

	for (i = 0; array && i < n; i++)
		h = tt_hash_add(h, array[i]);
	return h;
}

static uint64_t hash_key(const struct tt_plan_args *k)
{
	uint64_t h = tt_hash_add(k->count, (uint64_t)k->coll << 32 | (uint32_t)k->root);

	h = tt_hash_add(h, k->elem << 4 | (uint64_t)k->persistent << 3 |
				   (uint64_t)k->in_place << 2 | (uint64_t)k->divide << 1 |
				   k->ordered);
	if (k->codec)
		h = tt_hash_add(h, (uint64_t)(uintptr_t)k->codec->codec + k->feedback);
	if (k->edges)
		h = tt_hash_add(h, k->edges->hash);
	h = hash_array(h, k->scounts, k->nranks);
	h = hash_array(h, k->sdispls, k->nranks);
	h = hash_array(h, k->rcounts, k->nranks);
	return hash_array(h, k->rdispls, k->nranks);
}

static bool same_array(const size_t *a, const size_t *b, int n)
{
	return a == b || (a && b && !memcmp(a, b, (size_t)n * sizeof(*a)));
}

static bool same_codec(const struct tt_plan_args *a, const struct tt_plan_args *b)
{
	return a->codec == b->codec || (a->codec && b->codec && a->feedback == b->feedback &&
					a->codec->codec == b->codec->codec);
}

/* Graphs made alike have the same plan. */
static bool same_edges(const struct tt_edges *a, const struct tt_edges *b)
{
	size_t n, m;

	if (a == b || !a || !b)
		return a == b;
	n = (size_t)a->n;
	m = a->in_at[n];
	return a->hash == b->hash && a->n == b->n && m == b->in_at[n] &&
	       !memcmp(a->in_at, b->in_at, n * sizeof(*a->in_at)) &&
	       !memcmp(a->in, b->in, m * sizeof(*a->in)) &&
	       !memcmp(a->weight, b->weight, m * sizeof(*a->weight)) &&
	       !memcmp(a->own, b->own, n * sizeof(*a->own));
}

static bool same_key(const struct tt_plan_args *a, const struct tt_plan_args *b)
{
	return a->coll == b->coll && a->root == b->root && a->count == b->count &&
	       a->elem == b->elem && a->in_place == b->in_place && a->divide == b->divide &&
	       a->ordered == b->ordered && a->persistent == b->persistent && same_codec(a, b) &&
	       same_edges(a->edges, b->edges) && same_array(a->scounts, b->scounts, a->nranks) &&
	       same_array(a->sdispls, b->sdispls, a->nranks) &&
	       same_array(a->rcounts, b->rcounts, a->nranks) &&
	       same_array(a->rdispls, b->rdispls, a->nranks);
}

int tt_plans_new(struct tutti_comm *comm, struct tt_plan_cache **out)
{
	struct tt_plan_cache *cache = calloc(1, sizeof(*cache));
	int i;

	if (!cache)
		return tt_fail(-ENOMEM, "no memory for the plan cache");
	for (i = 0; i < BUCKETS; i++)
		tt_list_init(&cache->bucket[i]);
	tt_list_init(&cache->lru);
	*out = cache;
	return 0;
}

static void free_request(struct tt_plan_req *req)
{
	struct tt_memory *memory = tt_wire_memory(req->r.comm->ctx->wire);

	if (req->scratch)
		tt_mem_free(memory, req->scratch);
	if (req->scaled)
		tt_mem_free(memory, req->scaled);
	free(req->lanes);
	tt_request_release(req->r.comm->ctx, &req->r, sizeof(*req));
}

static void free_entry(struct tt_plan_cache *cache, struct tt_plan_entry *entry)
{
	while (!tt_list_empty(&entry->idle)) {
		struct tt_plan_req *req =
			tt_container(entry->idle.next, struct tt_plan_req, r.link);

		tt_list_del(&req->r.link);
		free_request(req);
	}
	tt_list_del(&entry->bucket);
	tt_list_del(&entry->lru);
	tt_plan_free(entry->plan);
	tt_counts_put(entry->counts);
	if (entry->key.codec)
		tt_codec_release(entry->codec.codec);
	tt_edges_put(entry->edges);
	free(entry);
	cache->n--;
}

void tt_plans_free(struct tt_plan_cache *cache)
{
	struct tt_list *l, *tmp;

	if (!cache)
		return;
	tt_list_each(l, tmp, &cache->lru)
		free_entry(cache, tt_container(l, struct tt_plan_entry, lru));
	free(cache);
}

static void trim(struct tt_plan_cache *cache)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &cache->lru)
	{
		struct tt_plan_entry *entry = tt_container(l, struct tt_plan_entry, lru);

		if (cache->n < PLANS_MAX)
			return;
		if (!entry->users)
			free_entry(cache, entry);
	}
}

/*
 * A persistent reduction of ranks of one host has the bits of the plain call, so it combines in the
 * same order. Its slot may be too small for node_slots; node_pull has the same order.
 */
static const struct tt_alg *choose_reduction(struct tutti_comm *comm, struct tt_plan_args *args)
{
	struct tt_plan_args plain = *args;
	const struct tt_alg *alg, *longer = tt_alg_find(args->coll, "node_pull");

	plain.persistent = false;
	alg = tt_choose(comm->chooser, &plain);
	plain.persistent = args->persistent;
	if (!tt_alg_can(alg, &plain) && plain.node && tt_alg_can(longer, &plain))
		alg = longer;
	if (!tt_alg_can(alg, &plain))
		return tt_choose(comm->chooser, args);
	*args = plain;
	return alg;
}

/* Depends only on values equal on all ranks; the counts of a v form may not be. */
static const struct tt_alg *choose(struct tutti_comm *comm, struct tt_plan_args *args)
{
	struct tt_plan_args agreed = *args;
	const struct tt_alg *alg;

	if (tt_coll_own_counts(args->coll))
		agreed.count = 0;
	if (tt_coll_neighbors(args->coll)) {
		tt_chooser_most(comm->chooser, args->elem, &agreed.chunk, &agreed.lanes);
		agreed.node = false;
		if (args->coll != TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
			agreed.hosts = NULL;
		alg = args->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE && comm->node
			      ? tt_alg_neighbors_hier()
			      : tt_alg_neighbors(args->coll);
	} else if (tt_coll_reduces(args->coll)) {
		alg = choose_reduction(comm, &agreed);
	} else {
		alg = tt_choose(comm->chooser, &agreed);
	}
	args->chunk = agreed.chunk;
	args->lanes = agreed.lanes;
	args->node = agreed.node;
	args->hosts = agreed.hosts;
	memcpy(args->upto, agreed.upto, sizeof(args->upto));
	return alg;
}

static int new_entry(struct tutti_comm *comm, const struct tt_plan_args *key,
		     struct tt_plan_entry **out)
{
	struct tt_plan_entry *entry;
	struct tt_plan_args args;
	int err;

	trim(comm->plans);
	entry = calloc(1, sizeof(*entry));
	if (entry && tt_coll_counts(key->coll))
		entry->counts = tt_counts_new(key); /* the caller may free its arrays */
	if (!entry || (tt_coll_counts(key->coll) && !entry->counts)) {
		free(entry);
		return tt_fail(-ENOMEM, "no memory for a plan");
	}
	args = entry->counts ? entry->counts->args : *key;
	if (key->codec) {
		entry->codec = *key->codec;
		args.codec = &entry->codec;
	}
	entry->key = args;
	if (!key->sdispls) /* as looked up */
		entry->key.sdispls = NULL;
	if (!key->rdispls)
		entry->key.rdispls = NULL;
	err = tt_plan_build(choose(comm, &args), &args, &entry->plan);
	if (err) {
		tt_counts_put(entry->counts);
		free(entry);
		return err;
	}
	if (key->codec) /* its address is in the key */
		tt_codec_hold(entry->codec.codec);
	if (key->edges)
		entry->edges = tt_edges_hold((struct tt_edges *)(uintptr_t)key->edges);
	tt_list_init(&entry->bucket);
	tt_list_init(&entry->lru);
	tt_list_init(&entry->idle);
	tt_list_add(&comm->plans->bucket[hash_key(key) % BUCKETS], &entry->bucket);
	comm->plans->n++;
	tt_wire_stats(comm->ctx->wire)->allocations++;
	*out = entry;
	return 0;
}

/* Most vectors that a weighted sum adds up. */
static size_t num_operands(const struct tt_plan_args *a)
{
	int most, ranks = 1;

	if (!a->edges)
		return 0;
	most = tt_edges_in(a->edges, tt_edges_rank(a)) + 1;
	if (a->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
		ranks = a->hosts->size[a->hosts->host[a->rank]];
	return (size_t)(ranks > most ? ranks : most);
}

/* Frees the least recently used plan with scratch that is not in use, but this one. */
static bool shed(struct tt_plan_cache *cache, const struct tt_plan_entry *but)
{
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &cache->lru)
	{
		struct tt_plan_entry *entry = tt_container(l, struct tt_plan_entry, lru);

		if (entry == but || entry->users || !entry->plan->scratch)
			continue;
		free_entry(cache, entry);
		return true;
	}
	return false;
}

/* Out of the pool; if that is used up, idle plans give theirs. */
static int new_scratch(struct tutti_comm *comm, struct tt_plan_req *req)
{
	size_t bytes = req->plan->scratch;
	int err;

	do
		err = tt_mem_alloc(tt_wire_memory(comm->ctx->wire), bytes, &req->scratch,
				   &req->region[TT_BUF_SCRATCH]);
	while (err == -ENOMEM && shed(comm->plans, req->entry));
	if (!err)
		memset(req->scratch, 0, bytes); /* a barrier sends uninitialised bytes */
	return err;
}

/* A request for a plan, with a block that holds its lanes and the ops of a round of each. */
static int new_request(struct tutti_comm *comm, struct tt_plan_entry *entry,
		       struct tt_plan_req **out)
{
	const struct tt_plan *plan = entry->plan;
	size_t nops = (size_t)plan->nlanes * (size_t)plan->max_ops;
	size_t k, operands = num_operands(&plan->args);
	struct tt_plan_req *req;
	struct tt_op_run *ops;
	struct tt_op *tmp;
	int i, err;

	req = tt_request_alloc(comm->ctx, sizeof(*req), 0);
	if (!req)
		return tt_fail(-ENOMEM, "no memory for a request");
	req->r.comm = comm;
	req->lanes = calloc(1, (size_t)plan->nlanes * sizeof(*req->lanes) +
				       nops * (sizeof(*ops) + sizeof(*tmp)) +
				       operands * (sizeof(*req->src) + sizeof(*req->weight)));
	if (!req->lanes) {
		free_request(req);
		return tt_fail(-ENOMEM, "no memory for a request");
	}
	ops = (struct tt_op_run *)(req->lanes + plan->nlanes);
	tmp = (struct tt_op *)(ops + nops);
	req->src = (const void **)(tmp + nops);
	req->weight = (double *)(req->src + operands);
	req->entry = entry;
	req->plan = plan;
	req->node = comm->numa && plan->args.hosts == comm->numa ? comm->near : comm->node;
	req->counts = tt_coll_own_counts(plan->args.coll) ? entry->counts : NULL;
	tt_list_init(&req->r.link);
	for (k = 0; k < nops; k++)
		tt_list_init(&ops[k].wait);
	for (i = 0; i < plan->nlanes; i++) {
		req->lanes[i] = (struct tt_lane_run){.req = req,
						     .lane = i,
						     .rounds = tt_plan_rounds(plan, i),
						     .ops = ops + i * plan->max_ops,
						     .tmp = tmp + i * plan->max_ops};
		tt_list_init(&req->lanes[i].ready);
		req->rounds += (uint32_t)req->lanes[i].rounds;
	}
	err = plan->scratch ? new_scratch(comm, req) : 0;
	if (err) {
		free_request(req);
		return err;
	}
	tt_wire_stats(comm->ctx->wire)->allocations++;
	*out = req;
	return 0;
}

void tt_comm_place(const struct tutti_comm *comm, struct tt_plan_args *args)
{
	args->node = comm->node && !comm->hosts;
	args->direct = args->node && (comm->ctx->node_can & TT_NODE_READS);
	args->hosts = comm->numa ? comm->numa : comm->hosts;
}

static int find_hosts(struct tutti_comm *comm)
{
	uint64_t *key = malloc((size_t)comm->size * sizeof(*key));
	int i, err;

	if (!key)
		return tt_fail(-ENOMEM, "no memory for the hosts of %d ranks", comm->size);
	for (i = 0; i < comm->size; i++)
		key[i] = tt_wire_host_key(comm->ctx->wire, comm->world[i]);
	err = tt_hosts_any(key, comm->size, &comm->all_hosts);
	free(key);
	return err;
}

int tt_comm_find_hosts(struct tutti_comm *comm)
{
	int err;

	tt_wire_lock(comm->ctx->wire);
	err = comm->all_hosts ? 0 : find_hosts(comm);
	tt_wire_unlock(comm->ctx->wire);
	return err;
}

struct tt_plan_args tt_call_args(const struct tutti_comm *comm, const struct tt_call *call)
{
	struct tt_plan_args args = {.coll = call->coll,
				    .rank = comm->rank,
				    .nranks = comm->size,
				    .root = call->root,
				    .count = call->count,
				    .elem = tutti_datatype_size(call->datatype),
				    .in_place = call->in_place,
				    .divide = tt_coll_reduces(call->coll) && call->op == TUTTI_AVG,
				    .scounts = call->scounts,
				    .sdispls = call->sdispls,
				    .rcounts = call->rcounts,
				    .rdispls = call->rdispls,
				    .edges = call->edges,
				    .feedback = call->codec && call->feedback,
				    .codec = call->codec};

	if (call->coll == TT_COLL_NEIGHBOR_HIER_ALLREDUCE)
		args.hosts = comm->all_hosts;
	else
		tt_comm_place(comm, &args);
	return args;
}

static struct tt_plan_entry *find_entry(struct tt_plan_cache *cache, const struct tt_plan_args *key)
{
	struct tt_list *bucket, *l, *tmp;
	struct tt_plan_entry *entry;

	if (tt_list_empty(&cache->lru))
		return NULL;
	entry = tt_container(cache->lru.prev, struct tt_plan_entry, lru);
	if (same_key(&entry->key, key)) /* the last call, once more */
		return entry;
	bucket = &cache->bucket[hash_key(key) % BUCKETS];
	tt_list_each(l, tmp, bucket)
	{
		entry = tt_container(l, struct tt_plan_entry, bucket);
		if (!same_key(&entry->key, key))
			continue;
		tt_list_del(&entry->lru);
		tt_list_add(&cache->lru, &entry->lru);
		return entry;
	}
	return NULL;
}

int tt_plans_get(struct tutti_comm *comm, const struct tt_plan_args *key, struct tt_plan_req **out)
{
	struct tt_plan_entry *entry = find_entry(comm->plans, key);
	int err;

	if (!entry) {
		err = new_entry(comm, key, &entry);
		if (err)
			return err;
		tt_list_add(&comm->plans->lru, &entry->lru);
	}
	if (tt_list_empty(&entry->idle)) {
		err = new_request(comm, entry, out);
		if (err)
			return err;
	} else {
		*out = tt_container(entry->idle.next, struct tt_plan_req, r.link);
		tt_list_del(&(*out)->r.link);
	}
	entry->users++;
	return 0;
}

void tt_plans_put(struct tt_plan_req *req)
{
	req->entry->users--;
	tt_list_add(&req->entry->idle, &req->r.link);
}
