/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every object that has been freed, with every call that takes it, its free included: each returns
 * -EINVAL with a text. Memory is read after its free, so AddressSanitizer cannot take part.
 */
#include "tests/mp/job.h"

#include <errno.h>
#include <stdio.h>
#include <tutti/local_steps.h>
#include <tutti/pipeline.h>
#include <tutti/reducer.h>
#include <tutti/sharded.h>

#define N 8

/* The call returns -EINVAL, with a text. */
#define DEAD(call)                                                                                 \
	do {                                                                                       \
		struct tutti_error_info dead = {.size = sizeof(dead)};                             \
                                                                                                   \
		MP_ERR(call, -EINVAL);                                                             \
		TT_EXPECT(!tutti_last_error(&dead) && dead.code == -EINVAL && dead.text[0]);       \
	} while (0)

static const size_t counts[1] = {N};
static float values[N], more[2 * N];
static void *const tensors[1] = {values};
static const struct tutti_rule sgd = {.size = sizeof(sgd), .rule = TUTTI_PS_SGD, .rate = 0.1};
static const struct tutti_reducer_config reducer_config = {.size = sizeof(reducer_config),
							   .n = 1,
							   .counts = counts,
							   .gradients = tensors,
							   .datatype = TUTTI_FLOAT32};
static const struct tutti_sharded_config sharded_config = {.size = sizeof(sharded_config),
							   .n = 1,
							   .counts = counts,
							   .parameters = tensors,
							   .datatype = TUTTI_FLOAT32,
							   .stage = 1,
							   .rule = &sgd};
static const struct tutti_local_steps_config local_config = {.size = sizeof(local_config),
							     .n = 1,
							     .counts = counts,
							     .parameters = tensors,
							     .datatype = TUTTI_FLOAT32,
							     .every = 2};

static int reducer(struct mp_job *job)
{
	struct tutti_reducer_stats stats = {.size = sizeof(stats)};
	struct tutti_reducer *r;
	size_t a, b;

	MP_OK(tutti_reducer_create(job->world, &reducer_config, &r));
	MP_OK(tutti_reducer_free(r));
	DEAD(tutti_reducer_ready(r, 0));
	DEAD(tutti_reducer_finish(r));
	DEAD(tutti_reducer_accumulate(r, 1));
	DEAD(tutti_reducer_unused(r, 0));
	DEAD(tutti_reducer_bucket(r, 0, &a, &b));
	DEAD(tutti_reducer_stats(r, &stats));
	DEAD(tutti_reducer_save(r, NULL, 0));
	DEAD(tutti_reducer_restore(r, NULL, 0));
	DEAD(tutti_reducer_free(r));
	return 0;
}

static int sharded(struct mp_job *job)
{
	struct tutti_sharded_memory memory = {.size = sizeof(memory)};
	struct tutti_sharded *s;
	double norm;

	MP_OK(tutti_sharded_create(job->world, &sharded_config, &s));
	MP_OK(tutti_sharded_free(s));
	DEAD(tutti_sharded_ready(s, 0, values));
	DEAD(tutti_sharded_step(s, &norm));
	DEAD(tutti_sharded_wait(s, 0));
	DEAD(tutti_sharded_memory(s, &memory));
	DEAD(tutti_sharded_save(s, "/nowhere"));
	DEAD(tutti_sharded_restore(s, "/nowhere"));
	DEAD(tutti_sharded_free(s));
	return 0;
}

static int local_steps(struct mp_job *job)
{
	struct tutti_local_steps *l;

	MP_OK(tutti_local_steps_create(job->world, &local_config, &l));
	MP_OK(tutti_local_steps_free(l));
	DEAD(tutti_local_steps_step(l, NULL));
	DEAD(tutti_local_steps_finish(l));
	DEAD(tutti_local_steps_free(l));
	return 0;
}

static int pipeline(struct mp_job *job)
{
	struct tutti_pipeline_config c = {.size = sizeof(c), .stages = 2, .micro_batches = 2};
	struct tutti_pipeline_counts count = {.size = sizeof(count)};
	struct tutti_pipeline_work work = {.size = sizeof(work)};
	const struct tutti_pipeline_step *steps;
	struct tutti_pipeline *p;
	double waited;
	int n;

	MP_OK(tutti_pipeline_create(&c, &p));
	MP_OK(tutti_pipeline_free(p));
	DEAD(tutti_pipeline_steps(p, 0, &steps, &n));
	DEAD(tutti_pipeline_count(p, 0, &count));
	DEAD(tutti_pipeline_run(p, &waited));
	DEAD(tutti_pipeline_free(p));
	/* the others of a collective wait */
	if (job->n == 1)
		DEAD(tutti_pipeline_attach(p, job->world, &work));
	return 0;
}

static int dead_table(struct mp_job *job, struct tutti_ps_table *t)
{
	struct tutti_ps_read last = {.size = sizeof(last)};
	struct tutti_ps_held held = {.size = sizeof(held)};
	struct tutti_request *req = NULL;
	const uint64_t key[1] = {1};
	uint64_t version;

	DEAD(tutti_ps_set(t, values, N, TUTTI_FLOAT32));
	DEAD(tutti_ps_pull(t, values, 0, N, TUTTI_FLOAT32));
	DEAD(tutti_ps_push(t, values, 0, N, TUTTI_FLOAT32));
	DEAD(tutti_ps_push_pull(t, values, more, 0, N, TUTTI_FLOAT32));
	DEAD(tutti_ps_elastic(t, values, 0, N, TUTTI_FLOAT32, 0.5));
	DEAD(tutti_ps_ipull(t, values, 0, N, TUTTI_FLOAT32, &req));
	DEAD(tutti_ps_ipush(t, values, 0, N, TUTTI_FLOAT32, &req));
	DEAD(tutti_ps_push_version(t, values, N, TUTTI_FLOAT32, &version));
	DEAD(tutti_ps_pull_version(t, values, N, TUTTI_FLOAT32, &version));
	DEAD(tutti_ps_pull_rows(t, key, 1, values, TUTTI_FLOAT32));
	DEAD(tutti_ps_push_rows(t, key, 1, values, TUTTI_FLOAT32));
	DEAD(tutti_ps_ipull_rows(t, key, 1, values, TUTTI_FLOAT32, &req));
	DEAD(tutti_ps_ipush_rows(t, key, 1, values, TUTTI_FLOAT32, &req));
	DEAD(tutti_ps_exact(t, 1));
	DEAD(tutti_ps_last_read(t, &last));
	DEAD(tutti_ps_held(t, &held));
	DEAD(tutti_ps_flush(t));
	return 0;
}

static int ps(struct mp_job *job)
{
	struct tutti_ps_options opt = {.size = sizeof(opt), .init = TUTTI_PS_ZERO};
	struct tutti_request *req = NULL;
	struct tutti_ps_table *t, *rows;
	struct tutti_ps *p, *fresh;
	uint64_t bytes;

	MP_OK(tutti_ps_open(job->world, NULL, &p));
	MP_OK(tutti_ps_dense(p, "t", N, TUTTI_FLOAT32, &opt, &t));
	MP_OK(tutti_ps_rows(p, "r", 1, N, TUTTI_FLOAT32, &opt, &rows));
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_SAID("tutti_finalize: a parameter server still exists; call tutti_ps_close");
	MP_OK(tutti_ps_close(p));
	TT_EXPECT(!dead_table(job, t));
	TT_EXPECT(!dead_table(job, rows));
	DEAD(tutti_ps_dense(p, "u", N, TUTTI_FLOAT32, &opt, &t));
	DEAD(tutti_ps_rows(p, "v", 1, N, TUTTI_FLOAT32, &opt, &t));
	DEAD(tutti_ps_find(p, "t", &t));
	DEAD(tutti_ps_server_bytes(p, 0, &bytes));
	DEAD(tutti_ps_clock(p));
	DEAD(tutti_ps_iclock(p, &req));
	DEAD(tutti_ps_clock_to(p, 5));
	DEAD(tutti_ps_save(p, "/nowhere"));
	DEAD(tutti_ps_restore(p, "/nowhere"));
	DEAD(tutti_ps_resize(p, job->world, NULL, &fresh));
	DEAD(tutti_ps_close(p));
	return 0;
}

static int win(struct mp_job *job)
{
	struct tutti_request *req = NULL;
	const int ids[1] = {0};
	struct tutti_win *w;
	uint64_t old;
	void *base;
	size_t size;
	int done;

	MP_OK(tutti_win_allocate(job->world, 64, 0, &base, &w));
	MP_OK(tutti_win_free(w));
	DEAD(tutti_put(w, 0, values, 4, 0));
	DEAD(tutti_get(w, 0, values, 4, 0));
	DEAD(tutti_iput(w, 0, values, 4, 0, &req));
	DEAD(tutti_iget(w, 0, values, 4, 0, &req));
	DEAD(tutti_put_notify(w, 0, values, 4, 0));
	DEAD(tutti_put_notify_id(w, 0, values, 4, 0, 1));
	DEAD(tutti_iput_notify(w, 0, values, 4, 0, &req));
	DEAD(tutti_iput_notify_id(w, 0, values, 4, 0, 1, &req));
	DEAD(tutti_accumulate(w, 0, values, 1, TUTTI_FLOAT32, TUTTI_SUM, 0));
	DEAD(tutti_get_accumulate(w, 0, values, more, 1, TUTTI_FLOAT32, TUTTI_SUM, 0));
	DEAD(tutti_fetch_add(w, 0, 1, 0, &old));
	DEAD(tutti_compare_swap(w, 0, 1, 2, 0, &old));
	DEAD(tutti_wait_notify(w, 0, 1));
	DEAD(tutti_wait_notify_id(w, 0, 1));
	DEAD(tutti_wait_notify_any(w, 1, ids, &done));
	DEAD(tutti_wait_notify_all(w, 1, ids));
	DEAD(tutti_test_notify(w, 0, 1, &done));
	DEAD(tutti_test_notify_id(w, 0, 1, &done));
	DEAD(tutti_test_notify_any(w, 1, ids, &done));
	DEAD(tutti_test_notify_all(w, 1, ids, &done));
	DEAD(tutti_win_flush(w, 0));
	DEAD(tutti_win_flush_all(w));
	DEAD(tutti_win_iflush(w, 0, &req));
	DEAD(tutti_win_iflush_all(w, &req));
	DEAD(tutti_win_set_priority(w, 1));
	DEAD(tutti_win_shared_query(w, 0, &base, &size));
	DEAD(tutti_win_free(w));
	return 0;
}

static int comm(struct mp_job *job)
{
	struct tutti_comm_state state = {.size = sizeof(state)};
	struct tutti_comm *c, *d;
	char name[20];

	MP_OK(tutti_comm_dup(job->world, &c));
	MP_OK(tutti_comm_free(c));
	DEAD(tutti_comm_rank(c));
	DEAD(tutti_comm_size(c));
	DEAD(tutti_comm_world_rank(c, 0));
	DEAD(tutti_comm_set_timeout(c, 10));
	DEAD(tutti_comm_dup(c, &d));
	DEAD(tutti_comm_create(c, NULL, &d));
	DEAD(tutti_comm_split(c, 0, 0, &d));
	DEAD(tutti_comm_split_host(c, 0, &d));
	DEAD(tutti_comm_abort(c, -EIO));
	DEAD(tutti_comm_set_name(c, "x"));
	DEAD(tutti_comm_set_owner(c, "a b", "b_free"));
	DEAD(tutti_comm_get_name(c, name, sizeof(name)));
	DEAD(tutti_comm_state(c, &state));
	DEAD(tutti_comm_revoke(c));
	DEAD(tutti_comm_shrink(c, &d));
	DEAD(tutti_barrier(c));
	DEAD(tutti_allreduce(values, more, N, TUTTI_FLOAT32, TUTTI_SUM, c));
	DEAD(tutti_send(values, N, TUTTI_FLOAT32, 0, 0, c));
	DEAD(tutti_recv(values, N, TUTTI_FLOAT32, 0, 0, c, NULL));
	DEAD(tutti_comm_free(c));
	return 0;
}

static int grid(struct mp_job *job)
{
	const int dims[1] = {job->n};
	const char *const names[1] = {"a"};
	struct tutti_grid *g;
	struct tutti_comm *c;
	int at[1] = {0};

	MP_OK(tutti_grid_create(job->world, 1, dims, names, &g));
	MP_OK(tutti_grid_free(g));
	DEAD(tutti_grid_axis(g, "a"));
	DEAD(tutti_grid_comm(g, 1, &c));
	DEAD(tutti_grid_coords(g, 0, at));
	DEAD(tutti_grid_rank(g, at));
	DEAD(tutti_grid_size(g, 0));
	DEAD(tutti_grid_free(g));
	return 0;
}

static int graph(struct mp_job *job)
{
	struct tutti_push_sum *p;
	struct tutti_graph *g, *ring;
	double z[N] = {0}, weight;
	int ranks[4], n;

	MP_OK(tutti_graph_ring(job->n, &ring));
	MP_OK(tutti_graph_ring(job->n, &g));
	MP_OK(tutti_graph_free(g));
	TT_EXPECT(!tutti_graph_size(g) && !tutti_graph_period(g)); /* as of NULL */
	TT_EXPECT(!(tutti_graph_weight(g, 0, 0, 0) > 0));
	DEAD(tutti_graph_check(g, 0));
	DEAD(tutti_graph_in(g, 0, 0, ranks, 4, &n));
	DEAD(tutti_graph_out(g, 0, 0, ranks, 4, &n));
	DEAD(tutti_neighbor_allreduce(values, more, N, TUTTI_FLOAT32, g, 0, job->world));
	DEAD(tutti_neighbor_hier_allreduce(values, more, N, TUTTI_FLOAT32, g, 0, job->world));
	DEAD(tutti_graph_free(g));

	MP_OK(tutti_push_sum_create(job->world, N, &p));
	MP_OK(tutti_push_sum_free(p));
	DEAD(tutti_push_sum_add(p, z));
	DEAD(tutti_push_sum_step(p, ring, 0));
	DEAD(tutti_push_sum_get(p, z, &weight));
	DEAD(tutti_push_sum_drain(p));
	DEAD(tutti_push_sum_free(p));
	MP_OK(tutti_graph_free(ring));
	return 0;
}

static int gossip(struct mp_job *job)
{
	struct tutti_gossip_config c = {.size = sizeof(c), .count = N, .datatype = TUTTI_FLOAT32};
	struct tutti_gossip_state state = {.size = sizeof(state)};
	struct tutti_pair_state averages = {.size = sizeof(averages)};
	struct tutti_gossip *g;
	struct tutti_pair *p;
	uint64_t versions[4];
	int partner;
	void *x;

	MP_OK(tutti_gossip_create(job->world, &c, &g));
	MP_OK(tutti_gossip_free(g));
	DEAD(tutti_gossip_post(g, values));
	DEAD(tutti_gossip_mix(g, values));
	DEAD(tutti_gossip_flush(g));
	DEAD(tutti_gossip_state(g, &state));
	DEAD(tutti_gossip_versions(g, versions));
	DEAD(tutti_gossip_free(g));

	MP_OK(tutti_pair_create(job->world, N, TUTTI_FLOAT32, &x, &p));
	MP_OK(tutti_pair_free(p));
	DEAD(tutti_pair_average(p, 0, &partner));
	DEAD(tutti_pair_lock(p, 0));
	DEAD(tutti_pair_unlock(p));
	DEAD(tutti_pair_state(p, &averages));
	DEAD(tutti_pair_free(p));
	return 0;
}

static int partial(struct mp_job *job)
{
	struct tutti_partial_stats stats = {.size = sizeof(stats)};
	struct tutti_partial *p;
	unsigned char bitmap[8];
	uint64_t first, last;

	MP_OK(tutti_partial_create(job->world, N, TUTTI_FLOAT32, TUTTI_SUM, NULL, &p));
	MP_OK(tutti_partial_free(p));
	DEAD(tutti_partial_allreduce(p, values, more, bitmap, &first, &last));
	DEAD(tutti_partial_drain(p, more, bitmap, &first, &last));
	DEAD(tutti_partial_result(p, 0, more, bitmap));
	DEAD(tutti_partial_resync(p, &first));
	DEAD(tutti_partial_stats_get(p, &stats));
	DEAD(tutti_partial_free(p));
	return 0;
}

static int codec(struct mp_job *job)
{
	const size_t side[1] = {N};
	struct tutti_power_sgd_config c = {
		.size = sizeof(c), .n = 1, .rows = side, .cols = side, .rank = 1};
	float matrix[N * N] = {0}, *const matrices[1] = {matrix};
	struct tutti_power_sgd *s;
	struct tutti_feedback *f;
	struct tutti_codec *k, *gone;
	const char *name;
	char out[1000];
	size_t len = sizeof(out);

	MP_OK(tutti_codec_create("topk:50%", &k));
	MP_OK(tutti_codec_create("qsgd:levels=3", &gone));
	MP_OK(tutti_codec_free(gone));
	TT_EXPECT(!tutti_codec_states(gone) && !tutti_codec_bound(gone, N)); /* as of NULL */
	TT_EXPECT(!tutti_codec_name(gone)[0]);
	DEAD(tutti_codec_encode(gone, values, N, TUTTI_FLOAT32, NULL, 0, out, &len));
	DEAD(tutti_codec_decode(gone, out, 10, values, N, TUTTI_FLOAT32));
	DEAD(tutti_codec_decode_add(gone, out, 10, values, N, TUTTI_FLOAT32));
	DEAD(tutti_codec_chosen(job->world, gone, N, &name));
	DEAD(tutti_codec_free(gone));

	MP_OK(tutti_feedback_create(job->world, k, N, &f));
	MP_OK(tutti_feedback_free(f));
	DEAD(tutti_feedback_reset(f));
	DEAD(tutti_feedback_save(f, more, N));
	DEAD(tutti_feedback_restore(f, more, N));
	DEAD(tutti_feedback_free(f));
	MP_OK(tutti_codec_free(k));

	MP_OK(tutti_power_sgd_create(job->world, &c, &s));
	MP_OK(tutti_power_sgd_free(s));
	DEAD(tutti_power_sgd_allreduce(s, matrices, TUTTI_SUM, job->world));
	DEAD(tutti_power_sgd_save(s, more, N));
	DEAD(tutti_power_sgd_restore(s, more, N, job->world));
	DEAD(tutti_power_sgd_free(s));
	return 0;
}

/* tutti_finalize refuses while free_object has not been called for the last object, and names it.
 */
#define LEFT(free_object, owner, free_call)                                                        \
	do {                                                                                       \
		MP_ERR(tutti_finalize(job->ctx), -EBUSY);                                          \
		MP_SAID("tutti_finalize: " owner " still exists; call " free_call);                \
		MP_OK(free_object);                                                                \
	} while (0)

/* Objects of libtutti_train that are still there when their context is to end. */
static int training_left(struct mp_job *job)
{
	struct tutti_local_steps *l;
	struct tutti_reducer *r;
	struct tutti_sharded *s;

	MP_OK(tutti_reducer_create(job->world, &reducer_config, &r));
	LEFT(tutti_reducer_free(r), "a reducer", "tutti_reducer_free");
	MP_OK(tutti_sharded_create(job->world, &sharded_config, &s));
	MP_OK(tutti_local_steps_create(job->world, &local_config, &l));
	MP_ERR(tutti_finalize(job->ctx), -EBUSY);
	MP_SAID("and 1 more object still exist; call tutti_");
	MP_OK(tutti_local_steps_free(l));
	LEFT(tutti_sharded_free(s), "a sharded optimizer", "tutti_sharded_free");
	MP_OK(tutti_local_steps_create(job->world, &local_config, &l));
	LEFT(tutti_local_steps_free(l), "a local-steps object", "tutti_local_steps_free");
	return 0;
}

/* The same of libtutti, and an owner of the caller's. */
static int averages_left(struct mp_job *job)
{
	struct tutti_gossip_config c = {.size = sizeof(c), .count = N, .datatype = TUTTI_FLOAT32};
	const int dims[1] = {job->n};
	const char *const names[1] = {"a"};
	struct tutti_push_sum *sum;
	struct tutti_gossip *g;
	struct tutti_grid *grid;
	struct tutti_comm *own;
	struct tutti_pair *p;
	void *x;

	MP_OK(tutti_gossip_create(job->world, &c, &g));
	LEFT(tutti_gossip_free(g), "a mailbox", "tutti_gossip_free");
	MP_OK(tutti_pair_create(job->world, N, TUTTI_FLOAT32, &x, &p));
	LEFT(tutti_pair_free(p), "a pair", "tutti_pair_free");
	MP_OK(tutti_push_sum_create(job->world, N, &sum));
	LEFT(tutti_push_sum_free(sum), "a push-sum", "tutti_push_sum_free");
	MP_OK(tutti_grid_create(job->world, 1, dims, names, &grid));
	LEFT(tutti_grid_free(grid), "a grid", "tutti_grid_free");
	MP_OK(tutti_comm_dup(job->world, &own));
	MP_ERR(tutti_comm_set_owner(own, "", "b_free"), -EINVAL);
	MP_SAID("tutti_comm_set_owner: owner is NULL or empty");
	MP_ERR(tutti_comm_set_owner(own, "a b", NULL), -EINVAL);
	MP_SAID("free_call is NULL");
	MP_ERR(tutti_comm_set_owner(job->world, "a b", "b_free"), -EINVAL);
	MP_SAID("the world belongs to the context");
	MP_ERR(tutti_comm_set_owner(tutti_self(job->ctx), "a b", "b_free"), -EINVAL);
	MP_SAID("tutti_self belongs to the context");
	MP_OK(tutti_comm_set_owner(own, "a b", "b_free"));
	LEFT(tutti_comm_free(own), "a b", "b_free");
	return 0;
}

static int run_one(struct mp_job *job)
{
	mp_fn *const *fn = job->arg;

	return (*fn)(job);
}

static void run(mp_fn *fn)
{
	if (mp_sanitized())
		TT_SKIP("it reads freed memory, as the library does");
	TT_CHECK(!MP_RUN(.n = 2, .env = "TUTTI_IF=lo", .fn = run_one, .arg = &fn));
	TT_CHECK(!MP_RUN(.n = 1, .env = "TUTTI_IF=lo", .fn = run_one, .arg = &fn));
}

#define CASE(name)                                                                                 \
	static void case_##name(void)                                                              \
	{                                                                                          \
		run(name);                                                                         \
	}
CASE(reducer)
CASE(sharded)
CASE(local_steps)
CASE(pipeline)
CASE(ps)
CASE(win)
CASE(comm)
CASE(grid)
CASE(graph)
CASE(gossip)
CASE(partial)
CASE(codec)
CASE(training_left)
CASE(averages_left)

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"reducer", case_reducer},
					       {"sharded", case_sharded},
					       {"local_steps", case_local_steps},
					       {"pipeline", case_pipeline},
					       {"ps", case_ps},
					       {"win", case_win},
					       {"comm", case_comm},
					       {"grid", case_grid},
					       {"graph", case_graph},
					       {"gossip", case_gossip},
					       {"partial", case_partial},
					       {"codec", case_codec},
					       {"training_left", case_training_left},
					       {"averages_left", case_averages_left},
					       {NULL, NULL}};

	return tt_test_main("freed", tests, argc, argv);
}
