/* SPDX-License-Identifier: BSD-3-Clause */
/* The start of a job: brings the layers up in order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "lib/job/job.h"
#include "lib/p2p/p2p.h"
#include "lib/observe/report/rank_report.h"
#include "lib/observe/report/prometheus.h"
#include "lib/rma/rma.h"
#include "lib/base/clock.h"
#include "lib/base/lists.h"
#include "lib/engine/node/node_ops.h"

static int set_text(struct tt_env_value *value, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return tt_fail(-ENOMEM, "no memory for the configuration");
	free((char *)value->text);
	value->text = copy;
	return 0;
}

/* The fields of the caller's struct take precedence over its options and the environment. */
static int apply_config(struct tt_env *env, const struct tutti_config *config)
{
	int err = 0;

	if (config->timeout_ms < 0)
		return tt_fail(-EINVAL, "config.timeout_ms is %d; it must not be negative",
			       config->timeout_ms);
	if (config->progress_thread < -1 || config->progress_thread > 1)
		return tt_fail(-EINVAL, "config.progress_thread is %d; it must be -1, 0 or 1",
			       config->progress_thread);
	if (config->tolerant < -1 || config->tolerant > 1)
		return tt_fail(-EINVAL, "config.tolerant is %d; it must be -1, 0 or 1",
			       config->tolerant);
	if (strlen(env->algo.text) >= sizeof(((struct tt_agreed *)0)->algo))
		return tt_fail(-EINVAL, "TUTTI_ALGO is longer than %zu characters",
			       sizeof(((struct tt_agreed *)0)->algo) - 1);
	if (config->timeout_ms)
		env->timeout.number = config->timeout_ms;
	if (config->transport)
		err = set_text(&env->transport, config->transport);
	if (!err && config->progress_thread)
		err = set_text(&env->progress, config->progress_thread > 0 ? "thread" : "caller");
	if (config->tolerant)
		env->tolerant.number = config->tolerant > 0;
	return err;
}

static int read_config(const struct tutti_config *user, struct tutti_config *config)
{
	static const struct tt_sized sized = TT_SIZED("config", tutti_config, rank);

	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
	if (!user)
		return 0;
	user = tt_sized_read(&sized, "tutti_init", user, config);
	if (!user)
		return -EINVAL;
	*config = *user;
	return 0;
}

static bool wants_node(const struct tutti_context *ctx)
{
	const char *node = ctx->env.node.text;

	return ctx->boot_params.nranks > 1 &&
	       (!strcmp(node, "on") || (!strcmp(node, "auto") && !*ctx->env.transport.text));
}

/* Without shared memory the ranks of a host use messages. */
static void open_node(struct tutti_context *ctx)
{
	int err = wants_node(ctx) ? tt_node_open(&ctx->node) : 0;

	if (err)
		tt_warn("no memory is shared with other ranks: %s", tt_fail_text(err));
}

static int lie_down(void *node, bool first)
{
	return tt_node_lie_down(node, first);
}

static void get_up(void *node)
{
	tt_node_get_up(node);
}

static int open_wire(struct tutti_context *ctx)
{
	struct tt_wire_params params = {.env = &ctx->env,
					.rank = ctx->boot_params.rank,
					.nranks = ctx->boot_params.nranks,
					.local_addr = ctx->local_addr,
					.mismatch = tt_run_mismatch,
					.early = tt_run_early,
					.late = tt_p2p_late,
					.fenced = tt_run_fenced,
					.damaged = tt_ctx_damaged,
					.cut = tt_ctx_cut,
					.alive = tt_ctx_alive,
					.arg = ctx};

	int err;

	open_node(ctx);
	if (ctx->node) {
		params.keeper = tt_node_keeper(ctx->node);
		params.sleeper = (struct tt_wire_sleeper){lie_down, get_up, ctx->node};
	}
	err = tt_wire_open(&params, &ctx->wire);
	if (err && ctx->node)
		tt_node_close(ctx->node);
	return err;
}

static void on_conn_req(void *ctx, int from, const void *data, size_t len)
{
	tt_ctx_lock(ctx);
	tt_wire_conn_req(((struct tutti_context *)ctx)->wire, from, data, len);
	tt_ctx_unlock(ctx);
}

static void on_conn_rep(void *ctx, int from, const void *data, size_t len)
{
	tt_ctx_lock(ctx);
	tt_wire_conn_rep(((struct tutti_context *)ctx)->wire, from, data, len);
	tt_ctx_unlock(ctx);
}

static void on_fenced(void *ctx, int from, const void *data, size_t len)
{
	tt_ctx_lock(ctx);
	tt_wire_fenced_msg(((struct tutti_context *)ctx)->wire, from, data, len);
	tt_ctx_unlock(ctx);
}

static void on_slower(void *ctx, int from, const void *data, size_t len)
{
	tt_ctx_lock(ctx);
	tt_wire_slower_msg(((struct tutti_context *)ctx)->wire, data, len);
	tt_ctx_unlock(ctx);
	(void)from;
}

static void on_gone(void *ctx, int rank, const char *host, const char *why)
{
	tt_ctx_gone(ctx, rank, host, why);
	tt_grow_again(ctx);
}

/* Rank from waits for what only calls of this rank, or the progress thread, do. */
static void on_progress(void *ctx, int from, const void *data, size_t len)
{
	int err;

	tt_ctx_lock(ctx);
	err = tt_thread_start(ctx);
	tt_ctx_unlock(ctx);
	(void)data;
	(void)len;
	if (err)
		tt_err("operations of rank %d wait for calls here: %s", from, tt_fail_text(err));
}

/*
 * The card: the wire's part, this rank's segment, then the values that all ranks adopt from rank
 * 0.
 */
static int join(struct tutti_context *ctx, int tune, struct tt_boot *boot)
{
	struct tt_boot_handlers handlers = {
		.gone = on_gone, .busy = tt_stuck_undecided, .room = tt_ctx_room, .arg = ctx};
	struct tt_agreed agreed = {.chunk = (uint64_t)ctx->env.chunk.number,
				   .lanes = (int32_t)ctx->env.lanes.number,
				   .node = ctx->node != NULL,
				   .checksum = (int32_t)ctx->env.checksum.number,
				   .tune = tune,
				   .tolerant = (int32_t)ctx->env.tolerant.number};
	struct tt_node_card node_card = {0};
	char card[TT_CARD_MAX];
	size_t len;
	int err;

	if (strlen(ctx->env.algo.text) >=
	    sizeof(agreed.algo)) { /* a truncated tail would be ignored */
		err = tt_fail(-EINVAL, "TUTTI_ALGO: more than %zu characters",
			      sizeof(agreed.algo) - 1);
		tt_boot_refuse(boot);
		return err;
	}
	handlers.fn[TT_CTL_CONN_REQ] = on_conn_req;
	handlers.fn[TT_CTL_CONN_REP] = on_conn_rep;
	handlers.fn[TT_CTL_STUCK] = tt_stuck_msg;
	handlers.fn[TT_CTL_QUERY] = tt_query_msg;
	handlers.fn[TT_CTL_LATE] = tt_late_msg;
	handlers.fn[TT_CTL_MISMATCH] = tt_mismatch_msg;
	handlers.fn[TT_CTL_ABORT] = tt_ctx_abort_msg;
	handlers.fn[TT_CTL_PROGRESS] = on_progress;
	handlers.fn[TT_CTL_PAIR] = tt_pair_msg;
	handlers.fn[TT_CTL_NODE] = tt_node_msg;
	handlers.fn[TT_CTL_FAIL] = tt_ctx_fail_msg;
	handlers.fn[TT_CTL_ACCUSE] = tt_ctx_accuse_msg;
	handlers.fn[TT_CTL_AGREE] = tt_vote_msg;
	handlers.fn[TT_CTL_GROW] = tt_grow_msg;
	handlers.fn[TT_CTL_FENCED] = on_fenced;
	handlers.fn[TT_CTL_SLOWER] = on_slower;
	handlers.fn[TT_CTL_ASK] = tt_look_msg;
	handlers.fn[TT_CTL_DOING] = tt_doing_msg;
	handlers.fn[TT_CTL_CLOSED] = tt_accs_closed_msg;
	snprintf(agreed.algo, sizeof(agreed.algo), "%s", ctx->env.algo.text);
	if (ctx->node)
		tt_node_card(ctx->node, &node_card);
	len = tt_wire_card(ctx->wire, card, sizeof(card) - sizeof(agreed) - sizeof(node_card));
	memcpy(card + len, &node_card, sizeof(node_card));
	len += sizeof(node_card);
	memcpy(card + len, &agreed, sizeof(agreed));
	err = tt_boot_join(boot, &handlers, card, len + sizeof(agreed));
	if (err)
		return err;
	/* Earlier handlers ran without ctx->boot; senders repeat what matters. */
	tt_wire_lock(ctx->wire);
	ctx->boot = boot;
	atomic_store(&ctx->beats, boot);
	tt_wire_unlock(ctx->wire);
	tt_wire_attach(ctx->wire, boot);
	tt_record_joined(ctx);
	return 0;
}

int tt_agreed_get(struct tutti_context *ctx, struct tt_agreed *agreed)
{
	const char *card;
	size_t len;

	card = tt_boot_card(ctx->boot, 0, &len);
	if (!card || len < sizeof(*agreed))
		return tt_fail(-EPROTO, "rank 0's card has %zu bytes", len);
	memcpy(agreed, card + len - sizeof(*agreed), sizeof(*agreed));
	agreed->algo[sizeof(agreed->algo) - 1] = 0;
	return 0;
}

static int node_card_of(void *arg, int rank, struct tt_node_card *card)
{
	size_t len;
	const char *data = tt_boot_card(((struct tutti_context *)arg)->boot, rank, &len);

	if (!data || len < sizeof(*card) + sizeof(struct tt_agreed))
		return tt_fail(-EPROTO, "rank %d's card has %zu bytes", rank, len);
	memcpy(card, data + len - sizeof(struct tt_agreed) - sizeof(*card), sizeof(*card));
	return 0;
}

static int make_world(struct tutti_context *ctx, const struct tt_tunes *tunes)
{
	struct tt_comm_kind kind = {.id = 1, .uid = 1};
	struct tt_agreed agreed;
	int err;

	err = tt_agreed_get(ctx, &agreed);
	if (err)
		return err;
	kind.tolerant = agreed.tolerant;
	err = tt_comm_new(ctx, NULL, ctx->boot_params.nranks, &kind, &ctx->world);
	if (err)
		return err;
	tt_wire_checksums(ctx->wire, agreed.checksum);
	tt_engine_share_host(ctx);
	if (agreed.node)
		err = tt_node_agree(ctx, node_card_of);
	if (!err)
		err = tt_comm_equip(ctx->world, &agreed);
	if (!err)
		err = tt_node_comm_share(ctx->world, false);
	if (err)
		return err;
	err = tt_tune_share(ctx, &agreed, tunes);
	if (err)
		return err;
	if (!strcmp(ctx->env.progress.text, "thread"))
		err = tt_thread_start(ctx);
	if (!err)
		err = tt_prom_start(ctx);
	return err;
}

static void init_context(struct tutti_context *ctx)
{
	ctx->magic = TT_CTX_MAGIC;
	ctx->next_comm_id = 1;
	ctx->reap = tt_comm_reap;
	ctx->boot_params.listen_fd = -1;
	ctx->win_marks[0] = 1ull << (TT_HELD_MARK - 1);
	tt_list_init(&ctx->comms);
	tt_list_init(&ctx->dead);
	tt_list_init(&ctx->ready);
	tt_list_init(&ctx->stalled);
	tt_list_init(&ctx->node_gated);
	tt_list_init(&ctx->node_waits);
	tt_list_init(&ctx->ops);
	tt_list_init(&ctx->decided);
	tt_list_init(&ctx->kin);
}

/*
 * A new process that was admitted to a job that other processes failed to start: it returns to the
 * gate.
 */
struct guest {
	uint64_t until; /* 0: the first time */
	bool again;
};

static void note_guest(const struct tutti_context *ctx, int err, struct guest *guest)
{
	struct tutti_error_info info = {.size = sizeof(info)};
	bool known = !tutti_last_error(&info), lack_elsewhere;

	if (!ctx->boot_params.gate)
		return;
	lack_elsewhere = (tt_is_shortage(err) || err == -EAGAIN) && info.rank >= 0;
	ctx->flight->head->nranks = 0; /* for tutti_run: this process is not in the job */
	guest->again = (err == -TUTTI_EBOOT || err == -TUTTI_EVERSION || err == -ETIMEDOUT ||
			err == -TUTTI_EPEER || err == -TUTTI_EABORTED || lack_elsewhere) &&
		       known && info.rank != ctx->boot_params.rank && !tt_passed(guest->until);
	if (guest->again)
		tt_warn("the job that has let this process in did not start: %s", info.text);
}

/* For tutti_run: the rank that caused the failure of the start. */
static void note_blame(const struct tutti_context *ctx)
{
	struct tutti_error_info info = {.size = sizeof(info)};

	if (ctx->flight->head && !tutti_last_error(&info) && info.rank >= 0)
		ctx->flight->head->blames = (uint32_t)info.rank + 1;
}

/* The settings, and where the other ranks are. */
static int configure(struct tutti_context *ctx, const struct tutti_config *config,
		     const struct tt_start *start, struct guest *guest)
{
	int err = start && start->env ? tt_env_load_again(&ctx->env, start->env)
				      : tt_env_load_options(&ctx->env, config->options);

	if (err)
		return err;
	if (ctx->env.log.by_option && !config->log_level)
		tt_log_set_level(tt_log_level(ctx->env.log.text));
	if (!guest->until)
		guest->until = tt_deadline_ms(ctx->env.init_timeout.number);
	err = apply_config(&ctx->env, config);
	if (!err)
		err = tt_inject_arm(&ctx->env, -1);
	if (!err)
		err = tt_lists_check(&ctx->env);
	if (!err)
		err = tt_env_job_enter(ctx, config);
	if (!err)
		err = tt_boot_discover(config, &ctx->env, &ctx->boot_params);
	if (err) {
		tt_env_job_leave(ctx, false);
		tt_env_free(&ctx->env);
		return err;
	}
	if (start) {
		ctx->boot_params.init_timeout = start->timeout_ms;
		ctx->boot_params.stop = start->stop;
		ctx->boot_params.stop_arg = start->arg;
	}
	tt_inject_arm(&ctx->env, ctx->boot_params.rank);
	return 0;
}

/* The parts that need no other rank. */
static int open_own(struct tutti_context *ctx)
{
	int err = tt_boot_local_addr(&ctx->boot_params, ctx->local_addr, sizeof(ctx->local_addr));

	if (err)
		return err;
	err = tt_record_open(ctx);
	if (err)
		return err;
	err = open_wire(ctx);
	if (err)
		tt_record_close(ctx);
	return err;
}

/*
 * Makes contact before the transports are opened, which can take long or kill the process: the
 * other ranks then learn of it at once.
 */
static int contact(struct tutti_context *ctx, struct tt_boot **boot)
{
	int err;

	tt_log_set_rank(ctx->boot_params.rank);
	err = tt_boot_contact(&ctx->boot_params, boot);
	ctx->boot_params.listen_fd = -1;
	sodium_memzero(ctx->boot_params.secret, sizeof(ctx->boot_params.secret));
	if (err)
		return err;
	err = open_own(ctx);
	if (err)
		tt_boot_refuse(*boot);
	return err;
}

/* Joins the job and makes the world. */
static int enter_job(struct tutti_context *ctx, struct tt_boot *boot, struct guest *guest)
{
	struct tutti_error_info info = {.size = sizeof(info)}, late;
	struct tt_tunes tunes;
	int tune = tt_tune_read(ctx, &tunes), err;

	if (tune < 0)
		tt_boot_refuse(boot);
	err = tune < 0 ? tune : join(ctx, tune, boot);
	if (!err)
		err = make_world(ctx, &tunes);
	if (!err && ctx->boot_params.gate) /* the old job's ranks keep the new world */
		err = tutti_barrier(ctx->world);
	if (err)
		note_guest(ctx, err, guest);
	tt_tunes_free(&tunes);
	if (!err || !ctx->boot)
		return err;
	tutti_last_error(&info);
	tt_job_leave(ctx, tt_deadline_ms(0), &late);
	return tt_fail_info(&info); /* not the error of stopping */
}

static int init(const struct tutti_config *user, const struct tt_start *start, struct guest *guest,
		struct tutti_context **out)
{
	struct tutti_config config;
	struct tutti_context *ctx;
	struct tt_boot *boot;
	int err;

	if (!out)
		return tt_fail(-EINVAL, "ctx is NULL");
	err = read_config(user, &config);
	if (err)
		return err;
	if (config.log || config.log_level)
		tutti_set_log(config.log, config.log_arg, config.log_level);
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return tt_fail(-ENOMEM, "no memory for a context");
	init_context(ctx);
	err = configure(ctx, &config, start, guest);
	if (err)
		goto free_ctx;
	err = contact(ctx, &boot);
	if (err)
		goto free_env;
	err = enter_job(ctx, boot, guest);
	if (err)
		goto close_own;
	tt_debug("rank %d of %d, found by %s, listening on %s", ctx->boot_params.rank,
		 ctx->boot_params.nranks, ctx->boot_params.origin, ctx->local_addr);
	*out = ctx;
	return 0;

close_own:
	note_blame(ctx);
	tt_job_close_wire(ctx);
	tt_record_close(ctx);
	tt_request_memory_free(ctx);
free_env:
	tt_env_job_leave(ctx, true);
	tt_env_free(&ctx->env);
free_ctx:
	free(ctx);
	return err;
}

int tt_init(const struct tutti_config *user, const struct tt_start *start,
	    struct tutti_context **out)
{
	struct tutti_error_info before = {.size = sizeof(before)};
	struct guest guest = {0};
	int err;

	tutti_last_error(&before);
	do {
		guest.again = false;
		err = init(user, start, &guest, out);
	} while (guest.again);
	if (!err)
		tt_fail_info(&before); /* of what was tried and is not needed, such as a table */
	return err;
}
