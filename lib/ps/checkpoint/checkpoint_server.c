/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server's side of checkpoint files, and of the workers' meetings around them. No worker pushes
 * between two meetings. restore.c reads the values of a file.
 */
#include <errno.h>
#include <string.h>

#include "lib/ps/checkpoint/safetensors.h"
#include "lib/ps/server/server.h"

#define CHUNK 4096 /* step counts written at once */

static void drop(struct tt_ps_server *srv)
{
	uint32_t i;

	for (i = 0; i < srv->ps->ntables; i++)
		tt_ps_pending_free(tt_ps_store_of(srv, i));
}

/* ---- meetings ---- */

static int said(struct tt_ps_said *to, int status, const char *text)
{
	to->status = status;
	snprintf(to->text, sizeof(to->text), "%s", text);
	return status;
}

/*
 * Under BSP, with nothing under way: whether there are updates of a clock that has not ended. Such
 * updates are in the values of no server, or of some servers only.
 */
bool tt_ps_unended(const struct tt_ps_server *srv)
{
	uint32_t i;
	int w;

	for (w = 0; w < srv->ps->nworkers; w++)
		if (srv->client[w].held)
			return true;
	for (i = 0; i < srv->ps->ntables && !srv->ps->staleness; i++)
		if (tt_ps_store_of(srv, i)->dirty.n || tt_ps_store_of(srv, i)->added)
			return true;
	return false;
}

/*
 * Whether the worker comes to no meeting any more. Under BSP its good-bye may wait for its turn,
 * which is after those who wait in the meeting.
 */
static bool absent(const struct tt_ps_client *c)
{
	return c->gone || c->leaves || c->buried;
}

static void open_meeting(struct tt_ps_server *srv, uint64_t number)
{
	struct tt_ps_client *c = srv->client;
	const struct tt_ps_client *first = NULL;
	int w;

	srv->met = number;
	drop(srv); /* values that another server, or a replica, could not restore */
	memset(&srv->verdict, 0, sizeof(srv->verdict));
	for (w = 0; w < srv->ps->nworkers; w++) {
		if (absent(&c[w]))
			continue;
		if (!first) {
			first = &c[w];
			srv->leader = w;
		}
		if (c[w].said.what != first->said.what)
			said(&srv->verdict, -TUTTI_EMISMATCH,
			     "workers called different functions, or gave different paths");
		else if (c[w].said.status)
			srv->verdict = c[w].said;
		srv->verdict.led |= c[w].said.led;
		c[w].held_before = srv->verdict.rows;
		srv->verdict.rows += c[w].said.rows;
	}
	if (!srv->verdict.status && tt_ps_unended(srv))
		said(&srv->verdict, -EBUSY,
		     "a worker has pushed or set values since its last clock; call it right after "
		     "tutti_ps_clock");
}

bool tt_ps_meeting(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		   const char *payload)
{
	int w;

	if (m->len == sizeof(c->said))
		memcpy(&c->said, payload, sizeof(c->said));
	c->said.text[sizeof(c->said.text) - 1] = 0;
	c->meeting = m->first;
	for (w = 0; w < srv->ps->nworkers; w++)
		if (!absent(&srv->client[w]) && srv->client[w].meeting < m->first) {
			srv->missing = w + 1;
			return false;
		}
	srv->missing = 0;
	if (srv->met < m->first && !tt_ps_settled(srv))
		return false;
	if (srv->met < m->first)
		open_meeting(srv, m->first);
	return true;
}

/* ---- saving ---- */

static int write_dense(const struct tt_ps_store *s, const struct tt_ps_file *file,
		       const struct tt_ps_tensor *tensor)
{
	const struct tutti_ps_table *t = s->t;
	uint64_t elems = s->part->elems, begin = s->part->begin, before = 0, b, pair[2];
	size_t size = tt_ps_state_size(t->datatype);
	int i, k, err;

	err = tt_ps_file_write(file, s->values, elems * t->elem,
			       tensor[TT_PS_VALUES].at + begin * t->elem);
	for (i = 0; i < 2 && !err && s->state[i]; i++)
		err = tt_ps_file_write(file, s->state[i], elems * size,
				       tensor[TT_PS_STATE1 + i].at + begin * size);
	for (k = 0; k < s->server; k++)
		before += t->part[k].blocks;
	for (b = 0; b < s->part->blocks && !err && s->state[0]; b++) {
		pair[0] = begin + b * t->block_elems;
		pair[1] = s->steps[b];
		err = tt_ps_file_write(file, pair, sizeof(pair),
				       tensor[TT_PS_STEPS].at + (before + b) * sizeof(pair));
	}
	return err;
}

static int write_rows(const struct tt_ps_store *s, const struct tt_ps_file *file,
		      const struct tt_ps_tensor *tensor, uint64_t before)
{
	const struct tutti_ps_table *t = s->t;
	size_t row = t->width * t->elem, size = t->width * tt_ps_state_size(t->datatype);
	uint64_t n = s->nrows, step[CHUNK], j, at;
	int i, err;

	if (before + n > tensor[TT_PS_ROW_KEYS].shape[0])
		return tt_fail(-EPROTO, "rows were added to table '%s' during the save", t->name);
	err = tt_ps_file_write(file, s->values, n * row, tensor[TT_PS_VALUES].at + before * row);
	if (!err)
		err = tt_ps_file_write(file, s->key, n * sizeof(*s->key),
				       tensor[TT_PS_ROW_KEYS].at + before * sizeof(*s->key));
	for (i = 0; i < 2 && !err && s->state[i]; i++)
		err = tt_ps_file_write(file, s->state[i], n * size,
				       tensor[TT_PS_STATE1 + i].at + before * size);
	for (at = 0; at < n && !err && s->state[0]; at += j) {
		for (j = 0; j < CHUNK && at + j < n; j++)
			step[j] = s->steps[at + j];
		err = tt_ps_file_write(file, step, j * sizeof(*step),
				       tensor[TT_PS_STEPS].at + (before + at) * sizeof(*step));
	}
	return err;
}

static int save(struct tt_ps_server *srv, const struct tt_ps_order *order)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	struct tt_ps_file file;
	int err = tt_ps_file_open(order->path, true, &file), end;
	uint32_t i;

	if (err)
		return err;
	for (i = 0; i < srv->ps->ntables && !err; i++) {
		struct tt_ps_store *s = tt_ps_store_of(srv, i);

		err = tt_ps_file_find(&file, s->t, tensor);
		if (!err && !s->t->rows && s->part->elems && !s->is_set)
			err = tt_fail(-ENODATA, "table '%s' has no values yet (tutti_ps_set)",
				      s->t->name);
		if (!err)
			err = s->t->rows ? write_rows(s, &file, tensor, order->before[i])
					 : write_dense(s, &file, tensor);
	}
	end = tt_ps_file_close(&file, !err);
	return err ? err : end;
}

/* Each server sums up an equal part, whatever it has written. */
static int sum_up(const struct tt_ps_server *srv, const struct tt_ps_order *order, uint64_t *sum)
{
	struct tt_ps_file file;
	int err = tt_ps_file_open(order->path, false, &file);

	if (err)
		return err;
	err = tt_ps_part_sum(&file, (uint64_t)srv->index, (uint64_t)srv->ps->nservers, sum);
	tt_ps_file_close(&file, false);
	return err;
}

/* ---- restoring ---- */

/* The clock at which worker w goes on: its own if the number of workers is unchanged. */
static uint64_t clock_in(const struct tt_ps_server *srv, const struct tt_ps_order *order, int w)
{
	bool known =
		order->workers == (uint64_t)srv->ps->nworkers && order->workers <= TT_PS_CLOCKS;

	return known ? order->clock[w] : order->min_clock;
}

static int check_clocks(const struct tt_ps_server *srv, const struct tt_ps_order *order)
{
	int w;

	for (w = 0; w < srv->ps->nworkers; w++)
		if (!absent(&srv->client[w]) && srv->client[w].clock > clock_in(srv, order, w))
			return tt_fail(-EINVAL,
				       "the clock of worker %d is %llu, and in %s it is %llu: it "
				       "can't go back",
				       w, (unsigned long long)srv->client[w].clock, order->path,
				       (unsigned long long)clock_in(srv, order, w));
	return 0;
}

static int read_all(struct tt_ps_server *srv, const struct tt_ps_order *order)
{
	struct tt_ps_tensor tensor[TT_PS_TENSORS];
	struct tt_ps_file file;
	int err = check_clocks(srv, order);
	uint32_t i;

	if (!err)
		err = tt_ps_file_open(order->path, false, &file);
	if (err)
		return err;
	drop(srv);
	err = tt_ps_parts_check(&file, srv->index, srv->ps->nservers);
	for (i = 0; i < srv->ps->ntables && !err; i++) {
		struct tt_ps_store *s = tt_ps_store_of(srv, i);

		err = tt_ps_file_find(&file, s->t, tensor);
		if (!err)
			err = tt_ps_pending_new(s);
		if (!err)
			err = s->t->rows ? tt_ps_pending_read_rows(s, &file, tensor)
					 : tt_ps_pending_read_dense(s, &file, tensor);
	}
	tt_ps_file_close(&file, false);
	if (err)
		drop(srv);
	return err;
}

static int prepare(struct tt_ps_server *srv, const struct tt_ps_order *order)
{
	srv->unprepared = read_all(srv, order);
	return srv->unprepared;
}

static int commit(struct tt_ps_server *srv, const struct tt_ps_order *order)
{
	uint32_t i;
	int w;

	for (i = 0; i < srv->ps->ntables; i++)
		if (!tt_ps_store_of(srv, i)->pending)
			return tt_fail(-EPROTO, "table '%s' was not prepared",
				       srv->ps->table[i]->name);
	for (i = 0; i < srv->ps->ntables; i++)
		tt_ps_pending_take(tt_ps_store_of(srv, i));
	for (w = 0; w < srv->ps->nworkers; w++)
		srv->client[w].clock = clock_in(srv, order, w);
	srv->min_clock = srv->pass_min = order->min_clock;
	tt_ps_seats_clear(srv);
	srv->all = true;
	srv->restored = srv->epoch + 1;
	for (i = 0; i < srv->ps->ntables; i++) {
		tt_ps_store_forget(tt_ps_store_of(srv, i));
		tt_ps_sub_restart(tt_ps_store_of(srv, i), srv->restored);
	}
	return 0;
}

/* ---- answers ---- */

/* again: the message was handled but not answered. */
static int obey(struct tt_ps_server *srv, const struct tt_ps_msg *m, const char *payload,
		bool again, uint64_t *sum)
{
	const struct tt_ps_order *order = (const struct tt_ps_order *)(const void *)payload;
	uint32_t i;

	if (m->len != sizeof(*order) || order->path[sizeof(order->path) - 1])
		return tt_fail(-EPROTO, "an order of %u bytes", m->len);
	if (m->kind == TT_PS_PREPARE)
		return prepare(srv, order);
	if (m->kind == TT_PS_COMMIT)
		return again ? 0 : commit(srv, order);
	if (m->kind == TT_PS_SUM)
		return srv->serves ? sum_up(srv, order, sum) : 0;
	for (i = 0; i < srv->ps->ntables; i++)
		tt_ps_store_settle(tt_ps_store_of(srv, i));
	return srv->serves ? save(srv, order) : 0; /* of replicas, only the primary writes */
}

void tt_ps_handle_file(struct tt_ps_server *srv, struct tt_ps_client *c, const struct tt_ps_msg *m,
		       const char *payload, struct tt_ps_credit *credit)
{
	struct tt_ps_reply *r =
		(struct tt_ps_reply *)(void *)(tt_ps_answer(c, m->number % TT_PS_SLOTS) +
					       sizeof(*credit));
	uint32_t i;
	int w, err;

	memset(r, 0, sizeof(*r));
	credit->len = sizeof(*r);
	r->min_clock = srv->min_clock;
	r->restored = srv->restored;
	for (w = 0; w < srv->ps->nworkers && w < TT_PS_CLOCKS; w++)
		r->clock[w] = srv->client[w].clock;
	if (m->kind == TT_PS_MEET) {
		r->said = srv->verdict;
		r->leader = (uint64_t)srv->leader;
		r->held_before = c->held_before;
		for (w = 0; w < srv->ps->nworkers && w < TT_PS_PRESENT; w++)
			r->here[w / 64] |= (uint64_t)!absent(&srv->client[w]) << w % 64;
		for (i = 0; i < srv->ps->ntables; i++)
			r->rows[i] = tt_ps_store_of(srv, i)->nrows;
		return;
	}
	err = obey(srv, m, payload, m->number < c->next, &r->sum);
	if (err)
		said(&r->said, err, tt_fail_text(err));
}
