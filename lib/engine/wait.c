/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and waiting. A waiting thread polls: it spins while every rank of the host has a core,
 * yields when oversubscribed, and sleeps after a long time without events.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/engine/node/node_ops.h"

#define SPIN_NS (2 * TT_MS)	  /* with a core per rank */
#define BUSY_SPIN_NS 50000ull	  /* of this without yielding: another program may need the core */
#define YIELD_NS (200 * 1000ull)  /* oversubscribed: so long, yielding costs peers nothing */
#define SLOW_YIELD_NS (1 * TT_MS) /* the same where a look takes a system call */
#define SLEEP_NS (50 * TT_MS)	  /* then timers run */
#define STALLED_NS TT_MS	  /* then operations without room are retried */
#define TIMER_STEPS 64		  /* timers run every so many steps */
#define CLOCK_STEPS 16		  /* between reads of the clock where a look is as cheap */
#define YIELD_STEPS 8		  /* between yields: one costs as much as several polls */
#define PAUSE_STEPS 8		  /* between pauses of the core: a look takes as long as a pause */
#define KEEP_STEPS 16		  /* between yields of a core that no other thread seems to need */
#define LATE_PAUSE (50 * TT_MS)	  /* between reports of persistent collectives */
#define EARLY_STEPS 32	    /* without events until the first yield, where a rank shares its core */
#define LONG_YIELD_NS TT_MS /* another thread, which computes, has had the core meanwhile */
#define CROWDED_NS TT_SEC   /* so long the library's threads then sleep between events */
#define CROWDED_STALLED_NS 100000ull /* then operations without room are retried */
#define LEAVING_NS 20000ull	     /* a thread that was woken leaves its sleep */
#define NAP_NS 100000ull	     /* of the progress thread, while callers poll */

static struct tutti_request *oldest(struct tutti_comm *comm, int list)
{
	if (tt_list_empty(&comm->active[list]))
		return NULL;
	return tt_container(comm->active[list].next, struct tutti_request, link);
}

/* Notes the phase of a request; the first one to end reports it for its communicator. */
static void note_where(struct tutti_request *req)
{
	struct tutti_error_info *f = &req->comm->failure;

	snprintf(req->phase, sizeof(req->phase), "under way");
	if (req->ops->where)
		req->bytes = req->ops->where(req, req->phase, sizeof(req->phase));
	if (f->phase[0] || !atomic_load(tt_active_coll(req->ops->list) ? &req->comm->coll_failed
								       : &req->comm->failed))
		return;
	if (!f->call[0]) {
		snprintf(f->call, sizeof(f->call), "%s", req->ops->call(req));
		f->sequence = req->seq;
	}
	snprintf(f->phase, sizeof(f->phase), "%s", req->phase);
	f->bytes = req->bytes;
}

/* Ends a request of a tolerant communicator that needs a dead rank. */
static void end_one(struct tutti_request *req)
{
	bool over = true;

	if (req->ops->abandon)
		over = req->ops->abandon(req);
	else
		req->ops->cancel(req);
	note_where(req);
	if (over)
		tt_request_end(req, -TUTTI_EPEER);
}

/* A rank has died in a tolerant communicator. The end of a request may end other requests. */
static void sweep_tolerant(struct tutti_comm *comm)
{
	struct tutti_request *req;
	struct tt_list kept;
	int i;

	if (comm->ndead_swept == comm->ndead)
		return;
	comm->ndead_swept = comm->ndead;
	tt_wire_drain(comm->ctx->wire); /* receives from any source may match what has come */
	for (i = 0; i < TT_ACTIVE_LISTS; i++) {
		tt_list_init(&kept);
		while ((req = oldest(comm, i))) {
			tt_list_del(&req->link);
			tt_list_add(&kept, &req->link);
			if (req->ops->outlive)
				req->ops->outlive(req);
			else if (!req->ops->needs || req->ops->needs(req) >= 0)
				end_one(req);
		}
		while (!tt_list_empty(&kept)) {
			struct tt_list *l = kept.next;

			tt_list_del(l);
			tt_list_add(&comm->active[i], l);
		}
	}
}

/*
 * Whether cancel would not wait. If it would, the request goes on for now: the control thread needs
 * the lock to find out that the awaited process is dead.
 */
static bool is_fenced(struct tutti_request *req)
{
	bool fenced = !req->ops->fence || req->ops->fence(req);

	req->comm->ctx->unfenced |= !fenced;
	return fenced;
}

/* End the requests of communicators that have failed. */
static void sweep(struct tutti_context *ctx)
{
	struct tutti_request *req;
	struct tt_list *l, *tmp;
	int i;

	ctx->failures_seen = atomic_load(&ctx->failures);
	ctx->unfenced = false;
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (!atomic_load(&comm->failed)) {
			sweep_tolerant(comm);
			continue;
		}
		for (i = 0; i < TT_ACTIVE_LISTS; i++)
			while ((req = oldest(comm, i)) && is_fenced(req)) {
				req->ops->cancel(req);
				note_where(req);
				tt_request_end(req, comm->failure.code);
			}
	}
	ctx->failures_seen -= ctx->unfenced; /* again at the next step */
}

void tt_stalled_wait(struct tt_stalled *stalled)
{
	(void)stalled;
}

/* Tries each once, even if a try removes others from the list. */
static void try_stalled(struct tutti_context *ctx)
{
	struct tt_list todo;

	tt_list_init(&todo);
	while (!tt_list_empty(&ctx->stalled)) {
		struct tt_list *l = ctx->stalled.next;

		tt_list_del(l);
		tt_list_add(&todo, l);
	}
	while (!tt_list_empty(&todo)) {
		struct tt_list *l = todo.next;

		tt_list_del(l);
		tt_list_add(&ctx->stalled, l);
		tt_container(l, struct tt_stalled, link)
			->again(tt_container(l, struct tt_stalled, link));
	}
}

/* Returns events; other progress is in ctx->moves. */
static int advance(struct tutti_context *ctx)
{
	int n = tt_wire_progress(ctx->wire);

	ctx->node_left = TT_NODE_AT_ONCE;
	if (!tt_list_empty(&ctx->stalled))
		try_stalled(ctx);
	if (!tt_list_empty(&ctx->node_gated) || !tt_list_empty(&ctx->node_waits))
		n += tt_node_poll(ctx);
	if (!tt_list_empty(&ctx->ready))
		tt_run_ready(ctx);
	if (atomic_load_explicit(&ctx->failures, memory_order_relaxed) != ctx->failures_seen)
		sweep(ctx);
	return n;
}

int tt_engine_progress(struct tutti_context *ctx)
{
	uint64_t before = ctx->moves;
	int n = advance(ctx) + (ctx->moves != before);

	if (n)
		tt_wire_wake_ready(ctx->wire);
	return n;
}

void tt_request_time_out(struct tutti_request *req)
{
	struct tutti_comm *comm = req->comm;
	char text[128], waits[400] = "", name[TT_COMM_NAME], limit[64];
	int rank;

	if (req->ops->expire && req->ops->expire(req))
		return;
	rank = req->ops->waits(req, waits, sizeof(waits));
	tt_comm_fail(comm, -ETIMEDOUT, rank, req->ops->call(req), req->seq, "",
		     "%s of %s did not finish within %s%s", req->ops->text(req, text, sizeof(text)),
		     tt_comm_name(comm, name, sizeof(name)),
		     tt_request_timeout_text(req, limit, sizeof(limit)), waits);
}

#define GRACE_NS TT_SEC

/*
 * A process that was stopped may have much to catch up with before it can blame others. A deadline
 * that it missed, or meets in the second after it goes on, passes at the end of that second. So
 * each stop moves a deadline once, and only the stops that begin before it do.
 */
static uint64_t with_grace(const struct tutti_context *ctx, uint64_t deadline)
{
	uint64_t from = atomic_load_explicit(&ctx->grace_from, memory_order_acquire);
	uint64_t until = atomic_load_explicit(&ctx->grace_until, memory_order_relaxed);

	return deadline >= from && deadline < until ? until : deadline;
}

/* Only looked for when it matters. */
static void note_stop(struct tutti_context *ctx)
{
	uint64_t from, until;

	if (!ctx->boot || !tt_boot_stopped(ctx->boot, &from, &until) ||
	    from <= atomic_load_explicit(&ctx->grace_from, memory_order_relaxed))
		return;
	atomic_store_explicit(&ctx->grace_until, until + GRACE_NS, memory_order_relaxed);
	atomic_store_explicit(&ctx->grace_from, from, memory_order_release);
}

static bool is_due(struct tutti_context *ctx, uint64_t now, uint64_t deadline)
{
	if (now < deadline)
		return false;
	note_stop(ctx);
	return now >= with_grace(ctx, deadline);
}

bool tt_engine_due(struct tutti_context *ctx, uint64_t deadline)
{
	return is_due(ctx, tt_now_ns(), deadline);
}

/* A request that has progressed reports only close to its deadline. */
static bool reports(const struct tutti_request *req, uint64_t now)
{
	return !req->progressed || req->deadline - now <= TT_LATE_LAST;
}

static void request_timers(struct tutti_request *req, uint64_t now)
{
	uint64_t wait = (uint64_t)req->comm->ctx->env.late_after.number * TT_MS;

	if (is_due(req->comm->ctx, now, req->deadline)) {
		tt_request_time_out(req);
		return;
	}
	if (now < req->late_at || now >= req->deadline)
		return;
	if (reports(req, now) && req->comm->size > 1) {
		if (req->ops->late)
			req->ops->late(req);
		wait = TT_SEC;
	}
	req->late_at = tt_request_next_late(req, now, wait);
	req->progressed = false;
}

/* The control tree has given no reason for the broken connection in time. */
static void condemn(struct tutti_comm *comm)
{
	struct tutti_context *ctx = comm->ctx;
	bool gone = comm->suspect_code == -TUTTI_EPEER;
	const char *why = gone ? tt_wire_why(ctx->wire, comm->suspect) : NULL;

	/* the transport's own reason, known only after the failed operation */
	if (why)
		snprintf(comm->suspect_why, sizeof(comm->suspect_why), "%s", why);
	if (!gone) {
		tt_comm_fail(comm, comm->suspect_code, comm->suspect, "", 0, "", "%s",
			     comm->suspect_why);
		return;
	}
	tt_ctx_lost(ctx, comm->suspect, comm->suspect_why);
	comm->suspect_until = tt_now_ns() + TT_ACCUSE_AGAIN;
}

/* The requests behind the oldest of a list; receives have no deadline. */
static void other_deadlines(struct tutti_comm *comm, uint64_t now)
{
	static const enum tt_active lists[] = {TT_ACTIVE_COLL, TT_ACTIVE_OTHER};
	struct tutti_request *req;
	struct tt_list *l, *tmp;
	int i;

	if (!comm->mixed_timeouts || now < comm->due)
		return;
	comm->due = TT_NEVER;
	for (i = 0; i < 2; i++)
		tt_list_each(l, tmp, &comm->active[lists[i]])
		{
			req = tt_container(l, struct tutti_request, link);
			if (atomic_load(&comm->failed))
				return;
			comm->due = req->deadline < comm->due ? req->deadline : comm->due;
			if (is_due(comm->ctx, now, req->deadline))
				tt_request_time_out(req);
		}
}

static void list_timers(struct tutti_comm *comm, int list, uint64_t now)
{
	struct tutti_request *first = oldest(comm, list);

	if (first && !atomic_load(&comm->failed))
		request_timers(first, now);
}

/*
 * Any of the persistent collectives may be the one that waits. A report of lateness reaches all
 * ranks, so only one at a time is made, the longest overdue.
 */
static void persistent_timers(struct tutti_comm *comm, enum tt_active list, uint64_t now)
{
	struct tutti_request *req, *late = NULL;
	struct tt_list *l, *tmp;

	tt_list_each(l, tmp, &comm->active[list])
	{
		req = tt_container(l, struct tutti_request, link);
		if (atomic_load(&comm->failed))
			return;
		if (now >= req->deadline || (now >= req->late_at && !reports(req, now)))
			request_timers(req, now);
		else if (now >= req->late_at && (!late || req->late_at < late->late_at))
			late = req;
	}
	if (!late || now < comm->late_next)
		return;
	comm->late_next = now + LATE_PAUSE;
	request_timers(late, now);
}

void tt_engine_timers(struct tutti_context *ctx)
{
	struct tt_list *l, *tmp;
	uint64_t now;

	if (ctx->reap_due)
		ctx->reap(ctx);
	tt_vote_timers(ctx);
	if (!ctx->running && !ctx->suspicions)
		return;
	now = tt_now_ns();
	tt_wire_watch(ctx->wire);
	if (ctx->node)
		tt_node_sweep(ctx->node);
	tt_list_each(l, tmp, &ctx->comms)
	{
		struct tutti_comm *comm = tt_container(l, struct tutti_comm, link);

		if (comm->suspect >= 0 && now >= comm->suspect_until && !atomic_load(&comm->failed))
			condemn(comm);
		list_timers(comm, TT_ACTIVE_COLL, now);
		list_timers(comm, TT_ACTIVE_OTHER, now);
		other_deadlines(comm, now);
		persistent_timers(comm, TT_ACTIVE_PERSISTENT, now);
		persistent_timers(comm, TT_ACTIVE_NEIGHBORS, now);
	}
}

struct waiter {
	struct tutti_context *ctx;
	bool (*done)(void *);
	void *arg;
	bool stalled;  /* operations wait for room or a turn without a wake-up for each */
	bool slow;     /* a look costs a system call */
	bool keep;     /* no awaited rank needs this core */
	bool looked;   /* once more, since it decided to sleep */
	bool slept;    /* the last sleep lasted until its timeout */
	bool late;     /* and something was to be done by then */
	bool kin;      /* other contexts have operations under way */
	bool beside;   /* a thread of the library, beside those of the program */
	bool relief;   /* and polls in place of those, only while they do not */
	bool relieved; /* they have, since its last nap */
	bool crowded; /* one of these computes on its core: it sleeps when it finds nothing to do */
	bool stirred; /* it ended as a transport has work, perhaps for a peer, without any event */
	bool turn;    /* it ends at its deadline, also where the process was stopped */
	bool entered;
	int events;	   /* in the last look */
	uint64_t uses;	   /* of the wire, after it */
	uint64_t refusals; /* of the context, before the last look */
};

static uint64_t end_of(const struct waiter *w, uint64_t deadline)
{
	return w->turn ? deadline : with_grace(w->ctx, deadline);
}

static bool is_over(const struct waiter *w, uint64_t now, uint64_t deadline)
{
	return w->turn ? now >= deadline : is_due(w->ctx, now, deadline);
}

static bool has_stalled(const struct tutti_context *ctx)
{
	return !tt_list_empty(&ctx->stalled) || !tt_list_empty(&ctx->node_gated);
}

/*
 * Operations that have stalled since the last look count before the sleep. During the sleep,
 * operations count that another thread has left.
 */
static bool ready_to_go(void *arg)
{
	struct waiter *w = arg;
	struct tutti_context *ctx = w->ctx;
	bool again = w->looked;

	w->looked = true;
	if (has_stalled(ctx) && (again ? !tt_wire_is_minded(ctx->wire) : !w->stalled))
		return true;
	return w->done(w->arg) || !tt_list_empty(&ctx->ready) || tt_node_ready(ctx) ||
	       (!ctx->unfenced && atomic_load(&ctx->failures) != ctx->failures_seen);
}

/*
 * A yield to a thread that computes costs the rest of its time slice, milliseconds, and the
 * scheduler does not take the core from it when something arrives. It does for a thread that
 * sleeps.
 */
static void yield(struct waiter *w)
{
	uint64_t start = w->beside ? tt_now_ns() : 0, now;

	sched_yield();
	if (!w->beside)
		return;
	now = tt_now_ns();
	if (now - start > LONG_YIELD_NS)
		atomic_store_explicit(&w->ctx->crowded_until, now + CROWDED_NS,
				      memory_order_relaxed);
}

static bool is_crowded(const struct waiter *w)
{
	uint64_t until;

	if (!w->beside || w->ctx->wait_forced)
		return false;
	until = atomic_load_explicit(&w->ctx->crowded_until, memory_order_relaxed);
	return until && tt_now_ns() < until;
}

static void sleep_step(struct waiter *w, uint64_t deadline)
{
	static const struct timespec leaving = {.tv_nsec = LEAVING_NS};
	struct tutti_context *ctx = w->ctx;
	bool soon = w->stalled || w->kin || ctx->unfenced;
	uint64_t most = !soon ? SLEEP_NS : w->crowded ? CROWDED_STALLED_NS : STALLED_NS;
	enum tt_slept how;

	w->looked = false;
	how = tt_wire_sleep(ctx->wire, tt_left_ns(deadline, most), ready_to_go, w);
	w->late = how == TT_SLEPT_LATE;
	w->slept = w->late || how == TT_SLEPT_OUT;
	w->stirred = how == TT_SLEPT_STIRRED;
	if (how == TT_SLEPT_NOT && w->crowded)
		nanosleep(&leaving, NULL);
	else if (how == TT_SLEPT_NOT)
		yield(w);
}

/*
 * A step without events, after others (quiet of them, for idle ns). Where a look costs a system
 * call anyway, yielding costs little more and lets the awaited ranks run. Waits until the deadline
 * at most. Returns whether it yielded although each rank should have a core.
 */
static bool pause_step(struct waiter *w, uint64_t idle, unsigned quiet, uint64_t deadline)
{
	struct tutti_context *ctx = w->ctx;
	uint64_t yields = w->slow ? SLOW_YIELD_NS : YIELD_NS;
	enum tt_wait_mode mode = ctx->wait_mode;
	bool early;

	w->stirred = false;
	if (w->relieved && !ctx->wait_forced) {
		w->relieved = w->looked = false;
		tt_wire_nap(ctx->wire, NAP_NS, ready_to_go, w);
		return false;
	}
	if (w->crowded) {
		sleep_step(w, deadline);
		return false;
	}
	if (mode == TT_WAIT_SPIN && !ctx->wait_forced && w->slow)
		mode = TT_WAIT_YIELD;
	if (mode == TT_WAIT_SPIN && (ctx->wait_forced || idle < SPIN_NS)) {
		early = quiet % EARLY_STEPS == 0 &&
			atomic_load_explicit(&ctx->shares_core, memory_order_relaxed);
		if (ctx->wait_forced || (!early && (idle < BUSY_SPIN_NS || quiet % YIELD_STEPS))) {
			if (quiet % PAUSE_STEPS == 0)
				tt_cpu_relax();
			return false;
		}
		yield(w);
		return true;
	}
	if (mode == TT_WAIT_YIELD && w->keep && idle < yields && quiet % KEEP_STEPS)
		tt_cpu_relax();
	else if (mode == TT_WAIT_YIELD && (ctx->wait_forced || idle < yields))
		yield(w);
	else
		sleep_step(w, deadline);
	return false;
}

/*
 * As tt_engine_progress. Progress right after a sleep that was late could have happened during the
 * sleep, unless an operation was refused since the look before it, perhaps in another thread: it
 * waits for a connection, or for room at another rank.
 */
static int look(struct waiter *w)
{
	struct tutti_context *ctx = w->ctx;
	uint64_t moves = ctx->moves, refusals = ctx->refusals;

	w->relieved |= w->relief && tt_wire_uses(ctx->wire) != w->uses;
	w->events = advance(ctx);
	w->uses = tt_wire_uses(ctx->wire);
	if (w->late && w->refusals == refusals && !w->events && ctx->moves != moves)
		tt_wire_stats(ctx->wire)->late_sleeps++;
	w->late = w->slept = false;
	w->refusals = refusals;
	if (w->events + (ctx->moves != moves) == 0)
		return 0;
	tt_wire_wake_ready(ctx->wire);
	return 1;
}

/* Does what the last step of a wait leaves to be done without the lock. */
static inline void wait_over(struct tutti_context *ctx, bool offered)
{
	if (offered)
		atomic_store_explicit(&ctx->shares_core, true, memory_order_relaxed);
	if (atomic_load_explicit(&ctx->dump_due, memory_order_relaxed))
		tt_record_due(ctx);
}

/*
 * A caller can wait without a request, as in a window's flush: links are watched for it as well.
 * The progress thread, which has no deadline, waits for nothing.
 */
static void timers(struct tutti_context *ctx, uint64_t deadline)
{
	if (deadline != TT_NEVER)
		tt_wire_watch(ctx->wire);
	tt_engine_timers(ctx);
}

/* After a look that did not end the wait, under the lock. */
static inline void stay(struct waiter *w, unsigned step, uint64_t deadline)
{
	struct tutti_context *ctx = w->ctx;

	if (!w->entered)
		tt_wire_enter(ctx->wire);
	w->entered = true;
	if (step % TIMER_STEPS == TIMER_STEPS - 1)
		timers(ctx, deadline);
	/* the end of a turn wakes no thread */
	w->stalled = has_stalled(ctx);
	if (step % CLOCK_STEPS == 0)
		w->slow = tt_wire_slow_poll(ctx->wire);
}

static int too_late(struct waiter *w)
{
	struct tutti_context *ctx = w->ctx;

	tt_wire_lock(ctx->wire);
	tt_wire_quit(ctx->wire);
	tt_wire_unlock(ctx->wire);
	return -ETIMEDOUT;
}

/* Until deadline; 0: timeout after the first reading of the clock, which a short wait saves. */
static int wait_for(struct waiter w, uint64_t deadline, uint64_t timeout)
{
	struct tutti_context *ctx = w.ctx;
	bool spin = ctx->wait_mode == TT_WAIT_SPIN, offered = false;
	uint64_t now = 0, idle_since = 0;
	unsigned step, quiet = 0;
	int n;

	for (step = 0;; step++) {
		tt_wire_lock(ctx->wire);
		n = look(&w);
		if (w.done(w.arg)) {
			w.entered ? tt_wire_quit(ctx->wire) : tt_wire_leave(ctx->wire);
			tt_wire_unlock(ctx->wire);
			wait_over(ctx, offered);
			return 0;
		}
		stay(&w, step, deadline);
		if (!n && !ctx->wait_forced &&
		    (!spin || quiet % EARLY_STEPS == 1)) /* or the rank moves to another core */
			w.keep = tt_node_keep_core(ctx) && !spin;
		tt_wire_unlock(ctx->wire);
		if (step % TIMER_STEPS == TIMER_STEPS - 1 && atomic_load(&ctx->has_kin))
			n += tt_kin_progress(ctx, &w.kin);
		if (offered) /* whether the awaited rank needed this core */
			atomic_store_explicit(&ctx->shares_core, w.events > 0,
					      memory_order_relaxed);
		offered = false;
		if (step % TIMER_STEPS == TIMER_STEPS - 1) { /* other events can go on for ever */
			now = tt_now_ns();
			if (!deadline)
				deadline = now + timeout;
			if (is_over(&w, now, deadline))
				return too_late(&w);
		}
		if (n) {
			idle_since = 0;
			quiet = 0;
			continue;
		}
		quiet++;
		idle_since = w.stirred || w.relieved ? 0 : idle_since;
		w.crowded = is_crowded(&w);
		if (!spin || w.slow || w.crowded || quiet % CLOCK_STEPS == 0 ||
		    (idle_since && now - idle_since > SPIN_NS)) {
			now = tt_now_ns();
			if (!idle_since)
				idle_since = now;
			if (!deadline)
				deadline = now + timeout;
			if (is_over(&w, now, deadline))
				return too_late(&w);
		}
		offered = pause_step(&w, idle_since ? now - idle_since : 0, quiet,
				     deadline ? end_of(&w, deadline) : TT_NEVER);
		if (w.slept || (idle_since && now - idle_since > SPIN_NS))
			step |= TIMER_STEPS - 2; /* slept between steps: run timers every time */
	}
}

int tt_engine_wait(struct tutti_context *ctx, bool (*done)(void *), void *arg, uint64_t deadline)
{
	return wait_for((struct waiter){.ctx = ctx, .done = done, .arg = arg},
			deadline ? deadline : 1, 0);
}

int tt_engine_wait_beside(struct tutti_context *ctx, bool (*done)(void *), void *arg,
			  uint64_t deadline)
{
	return wait_for((struct waiter){.ctx = ctx, .done = done, .arg = arg, .beside = true},
			deadline ? deadline : 1, 0);
}

int tt_engine_wait_turn(struct tutti_context *ctx, bool (*done)(void *), void *arg, uint64_t until)
{
	return wait_for((struct waiter){.ctx = ctx, .done = done, .arg = arg, .turn = true}, until,
			0);
}

void tt_engine_relieve(struct tutti_context *ctx, bool (*done)(void *), void *arg)
{
	struct waiter w = {.ctx = ctx, .done = done, .arg = arg, .beside = true, .relief = true};

	wait_for(w, TT_NEVER, 0);
}

int tt_engine_wait_a_while(struct tutti_context *ctx, bool (*done)(void *), void *arg,
			   uint64_t timeout)
{
	return wait_for((struct waiter){.ctx = ctx, .done = done, .arg = arg}, 0, timeout);
}
