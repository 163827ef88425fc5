/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The training loop of the small GPT; gpt.h lists the files. Try
 *
 *	tutti_run -n 8 gpt --data 2 --pipeline 2 --tensor 2 --schedule 1f1b
 */
#include "examples/gpt/gpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_all(struct gpt *g)
{
	int err = grid_make(g);

	if (!err)
		err = text_load(g);
	if (!err)
		err = params_make(g);
	if (!err)
		err = stage_make(g);
	if (!err)
		err = gradients_make(g);
	if (!err)
		err = adamw_make(g);
	if (!err && g->o.load)
		err = checkpoint_load(g, g->o.load);
	return g->o.servers ? downpour_make(g, err) : err;
}

/*
 * The loss is on the last stages, once for each rank of the tensor axis, or with slices in parts.
 * Of the times, the largest of all ranks counts. Each replica on a parameter server prints its own
 * line: together they would wait for each other.
 */
static int tell_step(struct gpt *g, double seconds)
{
	double loss = g->last && (!g->at[TENSOR] || g->slices > 1) ? g->loss : 0;
	struct tutti_comm *ranks = g->replica ? g->replica : g->world;
	double times[AXES], tokens = (double)g->o.batch * g->o.length;
	int i, err;

	g->doing = "adding up the loss";
	for (i = 0; i < AXES; i++)
		times[i] = g->waited[i];
	err = tutti_allreduce(TUTTI_IN_PLACE, &loss, 1, TUTTI_FLOAT64, TUTTI_SUM, ranks);
	if (!err)
		err = tutti_allreduce(TUTTI_IN_PLACE, times, AXES, TUTTI_FLOAT64, TUTTI_MAX, ranks);
	if (err || tutti_comm_rank(ranks))
		return err;
	if (g->replica) {
		tokens /= g->o.dims[DATA];
		printf("replica %d ", g->at[DATA]);
	}
	printf("step %d loss %.*f, %.0f tokens/s, exposed: data %.1f ms, pipeline %.1f ms, "
	       "tensor %.1f ms of %.1f\n",
	       g->step + 1, g->o.digits, loss / tokens, tokens / seconds, times[DATA] * 1e3,
	       times[PIPELINE] * 1e3, times[TENSOR] * 1e3, seconds * 1e3);
	fflush(stdout);
	return 0;
}

static int train(struct gpt *g)
{
	double from;
	int err = 0;

	for (; g->step < g->o.steps && !err; g->step++) {
		from = now();
		memset(g->waited, 0, sizeof(g->waited));
		if (g->o.straggle && g->at[DATA] == g->o.dims[DATA] - 1)
			sleep_ms(g->o.straggle);
		err = stage_run(g);
		if (!err)
			err = gradients_finish(g);
		if (!err)
			err = adamw_step(g);
		if (!err)
			err = tell_step(g, now() - from);
	}
	return err ? err : adamw_wait(g, ALL_BUCKETS);
}

static void tell_start(const struct gpt *g)
{
	struct tutti_pipeline_counts c = {.size = sizeof(c)};
	const int *d = g->o.dims;

	tutti_pipeline_count(g->pipeline, 0, &c);
	printf("data %d x pipeline %d x tensor %d: %zu parameters, %d micro-batches of %d "
	       "sequences, bubble %.1f %% (%d of %d slots), %d micro-batches live\n",
	       d[DATA], d[PIPELINE], d[TENSOR], g->file_count, g->o.micro, g->sequences,
	       100.0 * (c.slots - c.busy) / c.slots, c.slots - c.busy, c.slots, c.live);
	if (g->o.servers && g->o.staleness == TUTTI_PS_ASYNC)
		printf("servers: %d, replicas any number of steps apart\n", g->o.servers);
	else if (g->o.servers)
		printf("servers: %d, replicas at most %d steps apart\n", g->o.servers,
		       g->o.staleness);
	printf("activations kept on this rank: %zu bytes, %zu of them outside the matrices\n",
	       g->kept, g->kept_outside);
}

/*
 * The library counts the collectives of a communicator: two all-reduces a layer each way, or an
 * all-gather and a reduce-scatter for each of them, two all-gathers more to bring inputs back, and
 * the sums over slices.
 */
static void tell_tensor(const struct gpt *g, int steps)
{
	struct tutti_comm_state s = {.size = sizeof(s)};
	int i, sums = g->nlayers, each = 4;

	if (g->o.dims[TENSOR] == 1 || tutti_comm_state(g->comm[TENSOR], &s))
		return;
	if (g->slices > 1)
		each = g->o.gather_again ? 10 : 8;
	printf("tensor: %llu %s on this rank, %d layers x %d micro-batches x %d steps x %d",
	       (unsigned long long)s.calls, g->slices > 1 ? "collectives" : "all-reduces",
	       g->nlayers, g->o.micro, steps, each);
	for (i = g->nlayers; i < g->nbuckets; i++)
		sums += g->buckets[i].count > 0;
	if (g->slices > 1)
		printf(" and %d sums of gradients x %d steps", sums, steps);
	if (g->table || g->o.codec)
		printf(" and a broadcast of %s x %d steps",
		       g->table || g->sharded ? "parameters" : "gradients", steps);
	printf("\n");
}

static void tell_pushes(const struct gpt *g)
{
	struct tutti_ps_held held = {.size = sizeof(held)};

	if (!g->table || !g->o.codec || tutti_ps_held(g->table, &held))
		return;
	printf("pushes: %llu bytes by this rank, encoded from %llu\n",
	       (unsigned long long)held.sent_bytes, (unsigned long long)held.plain_bytes);
}

static int run(struct gpt *g)
{
	int root = !tutti_comm_rank(g->world), err = make_all(g), from = g->step;

	if (!err && root)
		tell_start(g);
	if (!err)
		err = train(g);
	if (!err && root)
		tell_tensor(g, g->step - from);
	if (!err && root)
		tell_pushes(g);
	if (!err && g->o.save)
		err = checkpoint_save(g, g->o.save);
	return err ? err : text_write(g);
}

/* The text of the call that failed names ranks, hosts and numbers. */
static void tell_error(const struct gpt *g, int err)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (tutti_last_error(&info) || info.code != err)
		fprintf(stderr, "gpt: %s: %s\n", g->doing, tutti_strerror(err));
	else if (!tutti_comm_rank(g->all))
		fprintf(stderr, "gpt: %s: %s\n", g->doing, info.text);
}

/* With a progress thread, activations reach the next stage while both stages compute. */
int main(int argc, char **argv)
{
	struct tutti_config config = {.size = sizeof(config),
				      .progress_thread = !getenv("TUTTI_PROGRESS")};
	struct gpt g = {.doing = "starting"};
	int err = options_read(&g.o, argc, argv), closed;

	if (err)
		return err < 0 ? 2 : 0;
	err = tutti_init(&config, &g.ctx);
	if (err)
		return fprintf(stderr, "gpt: starting: %s\n", tutti_strerror(err)), 1;
	g.all = g.world = tutti_world(g.ctx);
	err = g.o.servers ? downpour_split(&g) : 0;
	if (!err)
		err = g.serves ? downpour_make(&g, 0) : run(&g);
	if (err && !g.told)
		tell_error(&g, err);
	if (err && g.ps)
		tutti_comm_abort(g.all, 1); /* the others need not wait for this rank */
	closed = downpour_close(&g);
	if (!err && closed)
		tell_error(&g, closed);
	err = err ? err : closed;
	gpt_free(&g);
	return tutti_finalize(g.ctx) || err;
}
