/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves tables to a file and restores them. All workers meet at the servers, and one of them leads:
 * it writes the header, or reads and checks it, and has every server do its part. Then the workers
 * meet again and learn the result.
 */
#include "lib/ps/ps.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/ps/checkpoint/safetensors.h"
#include "lib/ps/ps_open.h"
#include "lib/ps/worker/accumulate.h"

struct keeping {
	struct tutti_ps *ps;
	const char *call;
	struct tt_ps_order *order; /* by server */
	struct tt_ps_reply *reply, *met;
	struct tt_ps_said said;
	struct tt_ps_file file;		   /* of the leader of a save */
	struct tt_ps_held_rows *held_rows; /* save: by table */
	struct tt_ps_residuals *held;	   /* restore: what this worker will hold back, by table */
};

static int ask(struct keeping *k, enum tt_ps_kind kind, const void *payload, size_t len,
	       size_t step, struct tt_ps_reply *reply)
{
	struct tt_ps_ask ask = {.kind = kind,
				.first = k->ps->meetings,
				.to = k->ps->nservers,
				.payload = payload,
				.len = len,
				.step = step,
				.reply = reply,
				.call = k->call};
	struct tutti_request *req;
	int err = tt_ps_ask(k->ps, &ask, &req);

	return err ? err : tutti_wait(&req);
}

/* All workers are here, and their pushes have been handled. */
static int meet(struct keeping *k)
{
	int err, i;

	k->ps->meetings++;
	err = ask(k, TT_PS_MEET, &k->said, sizeof(k->said), 0, k->met);
	for (i = 0; i < k->ps->nservers && !err; i++)
		if (k->met[i].said.status)
			err = tt_fail((int)k->met[i].said.status, "%s: %s", k->call,
				      k->met[i].said.text);
	return err;
}

/* Every server carries out the order; returns the first server's error. */
static int order(struct keeping *k, enum tt_ps_kind kind)
{
	int err = ask(k, kind, k->order, sizeof(*k->order), sizeof(*k->order), k->reply), i;

	for (i = 0; i < k->ps->nservers && !err; i++)
		if (k->reply[i].said.status)
			err = tt_fail((int)k->reply[i].said.status, "rank %d: %s", k->ps->server[i],
				      k->reply[i].said.text);
	return err;
}

/* A rename is durable once the directory is. */
static int move(const char *from, const char *to)
{
	char copy[1024];
	int fd, err = 0;

	if (rename(from, to))
		return tt_fail(-errno, "can't rename %s to %s: %s", from, to, strerror(errno));
	snprintf(copy, sizeof(copy), "%s", to);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd))
		err = tt_fail(-errno, "can't write the directory of %s: %s", to, strerror(errno));
	if (fd >= 0)
		close(fd);
	return err;
}

/* The new file has its header and its length, and stays locked until it is closed. */
static int begin_save(struct keeping *k, const char *path)
{
	struct tutti_ps *ps = k->ps;
	uint64_t rows[TT_PS_TABLES] = {0};
	struct stat st;
	uint32_t i;
	int s;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode)) /* it would be replaced */
		return tt_fail(-EINVAL,
			       "%s exists and is no regular file; name a file that may be replaced",
			       path);
	for (s = 0; s < ps->nservers; s++) {
		snprintf(k->order[s].path, sizeof(k->order[s].path), "%s.tmp", path);
		memcpy(k->order[s].before, rows, sizeof(rows));
		for (i = 0; i < ps->ntables; i++)
			rows[i] += k->met[s].rows[i];
	}
	return tt_ps_file_create(ps, k->order->path, rows, k->held_rows, k->met, &k->file);
}

static int seal(struct keeping *k)
{
	int n = k->ps->nservers, i, err;
	uint64_t *sum = calloc((size_t)n, sizeof(*sum));

	if (!sum)
		return tt_fail(-ENOMEM, "no memory for %d checksums", n);
	for (i = 0; i < n; i++)
		sum[i] = k->reply[i].sum;
	err = tt_ps_file_seal(k->order->path, sum, (size_t)n);
	free(sum);
	return err;
}

static int end_save(struct keeping *k, const char *path, int err)
{
	if (!err)
		err = order(k, TT_PS_SAVE);
	if (!err)
		err = order(k, TT_PS_SUM);
	if (!err)
		err = seal(k);
	if (!err)
		err = move(k->order->path, path);
	else
		unlink(k->order->path);
	tt_ps_file_close(&k->file, false);
	return err;
}

static int lead_restore(struct keeping *k, const char *path)
{
	char tmp[sizeof(k->order->path)];
	struct tt_ps_file file;
	int s, err;

	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	tt_ps_file_sweep(tmp);
	err = tt_ps_file_open(path, false, &file);
	if (err)
		return err;
	err = tt_ps_file_check(&file, k->ps, k->order);
	tt_ps_file_close(&file, false);
	snprintf(k->order->path, sizeof(k->order->path), "%s", path);
	for (s = 1; s < k->ps->nservers; s++)
		k->order[s] = k->order[0];
	if (!err)
		err = order(k, TT_PS_PREPARE);
	return err ? err : order(k, TT_PS_COMMIT);
}

/* Come to a meeting with this result; the first failure of a worker is that of all. */
static int meet_with(struct keeping *k, int mine, bool led)
{
	k->said.status = mine;
	snprintf(k->said.text, sizeof(k->said.text), "%s", mine ? tt_fail_text(mine) : "");
	k->said.led = led;
	return meet(k);
}

static int leader_lost(struct keeping *k, uint64_t leader)
{
	return tt_fail(-TUTTI_EPEER, "%s: worker %d, the leader, has failed", k->call, (int)leader);
}

/* Every worker learns where its rows begin in the file: a meeting for each table of rows. */
static int count_held_rows(struct keeping *k)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < k->ps->ntables && !err; i++) {
		const struct tutti_ps_table *t = k->ps->table[i];

		if (!t->coder || !t->rows)
			continue;
		k->said.rows = tt_ps_feedback_count(t);
		err = meet_with(k, 0, false);
		k->held_rows[i].all = k->met->said.rows;
		k->held_rows[i].before = k->met->held_before;
	}
	k->said.rows = 0;
	return err;
}

/* Workers write what they hold back once the leader has made the file. */
static int save_held(struct keeping *k, const char *path, uint64_t leader)
{
	bool leads = leader == (uint64_t)k->ps->my_worker, made;
	char tmp[sizeof(k->order->path)];
	int err = count_held_rows(k);

	if (err)
		return err;
	err = leads ? begin_save(k, path) : 0;
	made = leads && !err;
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	err = meet_with(k, err, leads);
	if (!err && !k->met->said.led)
		err = leader_lost(k, leader);
	if (!err)
		err = meet_with(k, tt_ps_held_write(k->ps, tmp, k->held_rows), false);
	return err && made ? end_save(k, path, err) : err;
}

/* save_held has made the file if there is something held back. */
static int lead_save(struct keeping *k, const char *path)
{
	int err = tt_ps_held_any(k->ps) ? 0 : begin_save(k, path);

	return err ? err : end_save(k, path, 0);
}

static int restore_held(struct keeping *k, const char *path, uint64_t leader)
{
	(void)leader;
	return meet_with(k, tt_ps_held_read(k->ps, k->met, path, &k->held), false);
}

/* This worker's knowledge dates from before the restore: forget it. */
static void go_on(struct tutti_ps *ps, const struct tt_ps_reply *met, struct tt_ps_residuals *held)
{
	uint64_t clock = ps->my_worker < TT_PS_CLOCKS ? met->clock[ps->my_worker] : met->min_clock;
	uint32_t i;
	uint64_t b;
	int s;

	tt_wire_lock(ps->comm->ctx->wire);
	for (i = 0; i < ps->ntables; i++) {
		struct tutti_ps_table *t = ps->table[i];

		tt_map_clear(&t->places);
		tt_ps_downpour_forget(t);
		if (t->coder)
			tt_ps_feedback_restore(t, &held[i], clock);
		tt_ps_forget_versions(t);
		for (s = 0; s < ps->nservers; s++)
			for (b = 0; b < t->part[s].blocks; b++)
				tt_ps_floor(t, s, b, met[s].restored);
	}
	ps->clock = clock;
	for (s = 0; s < ps->nservers; s++)
		if (ps->link[s].min_clock < met[s].min_clock)
			ps->link[s].min_clock = met[s].min_clock;
	tt_ps_trace(ps, "tick %llu %llu\n", (unsigned long long)ps->clock,
		    (unsigned long long)tt_now_ns());
	tt_wire_unlock(ps->comm->ctx->wire);
}

struct kind {
	/* Collective over the workers: what they hold back. */
	int (*held)(struct keeping *k, const char *path, uint64_t leader);
	int (*lead)(struct keeping *k, const char *path);
};

static int keep(struct keeping *k, const char *path, const struct kind *kind)
{
	uint64_t leader;
	int err, end;

	/*
	 * updates that budgets kept back belong before the meeting, too; a worker with an error
	 * still comes, so that other workers do not wait in vain
	 */
	err = tt_ps_send_accrued(k->ps, k->ps->clock);
	if (!err && k->ps->tasks)
		err = tt_fail(-EBUSY, "%d requests of worker %d have not been waited for",
			      k->ps->tasks, k->ps->my_worker);
	err = meet_with(k, err, false);
	if (err)
		return err;
	leader = k->met->leader;
	if (tt_ps_held_any(k->ps)) {
		err = kind->held(k, path, leader);
		if (err)
			return err;
	}
	if (leader == (uint64_t)k->ps->my_worker)
		err = kind->lead(k, path);
	end = meet_with(k, err, leader == (uint64_t)k->ps->my_worker);
	if (!end && !k->met->said.led)
		end = leader_lost(k, leader);
	return err ? err : end;
}

static uint64_t hash_text(const char *text)
{
	uint64_t h = 0;

	while (*text)
		h = tt_hash_add(h, (unsigned char)*text++);
	return h;
}

static int keep_all(struct tutti_ps *ps, const char *path, const char *call,
		    const struct kind *kind, bool restores)
{
	struct keeping k = {
		.ps = ps, .call = call, .said.what = tt_hash_add(hash_text(path), restores)};
	size_t n = (size_t)ps->nservers;
	int err;

	k.order = calloc(n, sizeof(*k.order));
	k.reply = calloc(2 * n, sizeof(*k.reply));
	k.held_rows = calloc((size_t)ps->ntables + 1, sizeof(*k.held_rows));
	if (k.order && k.reply && k.held_rows) {
		k.met = k.reply + n;
		err = keep(&k, path, kind);
	} else {
		err = tt_fail(-ENOMEM, "no memory for %s", call);
	}
	if (!err && restores)
		go_on(ps, k.met, k.held);
	tt_ps_held_free(k.held, ps->ntables);
	free(k.order);
	free(k.reply);
	free(k.held_rows);
	return err;
}

int tt_ps_save(struct tutti_ps *ps, const char *path)
{
	static const struct kind save = {save_held, lead_save};

	return keep_all(ps, path, "ps_save", &save, false);
}

int tt_ps_restore(struct tutti_ps *ps, const char *path)
{
	static const struct kind restore = {restore_held, lead_restore};

	return keep_all(ps, path, "ps_restore", &restore, true);
}
