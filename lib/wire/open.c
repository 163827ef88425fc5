/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens transports. Cheap transports are opened at once. A costly transport that was not requested
 * by name is published as usable here, and opened when it is the best way to a peer: right after
 * the cards are known, rarely within one host.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/lists.h"
#include "lib/base/signals.h"
#include "lib/wire/wire_internal.h"

#define COSTLY (32 << 20) /* bytes that a costly transport and its libraries take, about */

/* TUTTI_TRANSPORT without its "fault:" prefix; *fault: whether the prefix was present. */
static const char *allowed(const struct tt_env *env, bool *fault)
{
	const char *list = env->transport.text;

	*fault = !strncmp(list, "fault:", 6);
	return *fault ? list + 6 : list;
}

static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name), len;

	if (!*list)
		return true;
	for (; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len == n && !strncmp(list, name, n))
			return true;
	}
	return false;
}

/* Checks that every name in TUTTI_TRANSPORT is a transport between ranks, and given once. */
static int check_list(const char *list)
{
	int n = 0, i, err = tt_list_check("TUTTI_TRANSPORT", list, INT_MAX);
	const char *names[TT_TP_MAX], *near;
	char word[32];
	size_t len;

	for (i = 0; tt_transports[i]; i++)
		if (strcmp(tt_transports[i]->name, "self"))
			names[n++] = tt_transports[i]->name;
	for (; !err && *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		snprintf(word, sizeof(word), "%.*s", (int)len, list);
		for (i = 0; i < n && strcmp(names[i], word); i++)
			;
		if (i < n)
			continue;
		near = tt_nearest(word, names, n);
		return tt_fail(-EINVAL, "TUTTI_TRANSPORT: there is no transport '%s'%s%s%s", word,
			       near ? "; did you mean " : " between ranks", near ? near : "",
			       near ? "?" : "");
	}
	return err;
}

/* Whether puts are long enough for a slot and, for a late opening, for the agreed length. */
static int check_longest(struct tt_wire *wire, const struct tt_tp *tp)
{
	size_t need = tt_slot_size(wire->env);

	if (wire->boot && wire->longest != SIZE_MAX && wire->longest > need)
		need = wire->longest;
	if (!tp->max_put || tp->max_put >= need)
		return 0;
	return tt_fail(-TUTTI_ETRANSPORT, "a put of %s has at most %zu bytes, %zu are needed",
		       tp->ops->name, tp->max_put, need);
}

static void set_way(struct tt_wire_tp *t, int index)
{
	bool any = t->tp->caps & TT_CAP_LOCAL_ANY;

	t->way = (struct tt_way){.place = t->place,
				 .index = index,
				 .most = t->tp->max_put ? t->tp->max_put : SIZE_MAX,
				 .bare_put = any ? SIZE_MAX : t->tp->inline_put,
				 .bare_get = any ? SIZE_MAX : 0,
				 .get_head = t->tp->caps & TT_CAP_GET_HEAD,
				 .at_once = t->tp->caps & TT_CAP_AT_ONCE};
}

static int open_one(struct tt_wire *wire, int place)
{
	struct tt_wire_tp *t = &wire->tp[wire->ntps];
	const struct tt_tp_ops *ops = tt_transports[place];
	bool self = !strcmp(ops->name, "self");
	int err;

	err = wire->fault && !self
		      ? tt_fault_open(ops, wire->env->fault.text, &wire->tp_params, &t->tp)
		      : ops->open(&wire->tp_params, &t->tp);
	if (!err && (err = check_longest(wire, t->tp)))
		t->tp->ops->close(t->tp);
	if (err)
		return err;
	t->name = ops->name;
	t->place = place;
	set_way(t, wire->ntps);
	t->tp->optional = !wire->asked && !self;
	wire->ntps++;
	return 0;
}

static void leave_out(struct tt_wire *wire, int place, int err)
{
	const char *name = tt_transports[place]->name;

	snprintf(wire->left_out[place], sizeof(wire->left_out[place]), "%s can't be opened: %s",
		 name, tt_fail_text(err));
	tt_info("transport %s is left out: %s", name, tt_fail_text(err));
}

/* Whether there is too little for a costly transport, too. */
static bool lacks_more(int err)
{
	return tt_is_shortage(err) && (err != -ENOMEM || !tt_has_room(COSTLY));
}

static int open_or_leave(struct tt_wire *wire, int place, const char *list)
{
	const struct tt_tp_ops *ops = tt_transports[place];
	bool self = !strcmp(ops->name, "self");
	int err;

	if (!self && (!in_list(list, ops->name) || wire->params.nranks == 1))
		return 0;
	if (ops->costly && !wire->asked) {
		wire->late[place] = !ops->present || ops->present();
		if (!wire->late[place])
			tt_info("transport %s is left out: there is no device", ops->name);
		return 0;
	}
	err = open_one(wire, place);
	if (!err || self || wire->asked || lacks_more(err))
		return err;
	leave_out(wire, place, err);
	return 0;
}

/*
 * Skips a transport that cannot be opened, unless it was requested by name, or a costly one, which
 * would be opened when needed, would fail, too.
 */
int tt_open_transports(struct tt_wire *wire)
{
	const char *list = allowed(wire->env, &wire->fault);
	int i, err;

	wire->asked = *list != 0;
	/*
	 * Before the open, as restored handlers must not run inside libfabric; after it, in case
	 * it reinstalled its own.
	 */
	tt_signals_restore();
	err = check_list(list);
	for (i = 0; !err && tt_transports[i]; i++)
		err = open_or_leave(wire, i, list);
	tt_signals_restore();
	return err;
}

static int open_late(struct tt_wire *wire, int place)
{
	int err;

	wire->late[place] = false; /* one try */
	tt_signals_restore();
	err = open_one(wire, place);
	tt_signals_restore();
	if (err) {
		leave_out(wire, place, err);
		return err;
	}
	tt_info("transport %s is opened now that it is needed", tt_transports[place]->name);
	tt_memory_add(wire->memory, wire->ntps - 1, wire->tp[wire->ntps - 1].tp);
	return 0;
}

bool tt_usable_place(struct tt_wire *wire, int place)
{
	return wire->late[place] || tt_wire_at_place(wire, place) >= 0;
}

int tt_open_place(struct tt_wire *wire, int place, int *tp)
{
	int err = 0;

	if (wire->late[place])
		err = open_late(wire, place);
	if (err)
		return err;
	*tp = tt_wire_at_place(wire, place);
	return *tp < 0 ? tt_fail(-EOPNOTSUPP, "%s is not open at rank %d%s%s",
				 tt_transports[place]->name, wire->params.rank,
				 wire->left_out[place][0] ? ": " : "", wire->left_out[place])
		       : 0;
}

static bool any_late(const struct tt_wire *wire)
{
	int i;

	for (i = 0; tt_transports[i]; i++)
		if (wire->late[i])
			return true;
	return false;
}

void tt_open_needed(struct tt_wire *wire)
{
	int tps[TT_TP_MAX], r, tp;

	for (r = 0; r < wire->params.nranks && any_late(wire); r++)
		if (r != wire->params.rank && tt_card_transports(wire, r, tps, TT_TP_MAX) &&
		    wire->late[tps[0]])
			(void)tt_open_place(wire, tps[0], &tp); /* connecting reports the failure */
}

bool tt_wire_shares_memory(struct tt_wire *wire, int rank)
{
	const struct tt_chan *chan = wire->chan[rank];
	int places[TT_TP_MAX];

	if (rank == wire->params.rank)
		return true;
	return tt_card_transports(wire, rank, places, TT_TP_MAX) &&
	       !strcmp(tt_transports[places[0]]->name, "shm") &&
	       !(chan && chan->ep && wire->tp[chan->tp].place != places[0]);
}

void tt_wire_open_rest(struct tt_wire *wire, const int *ranks, int n)
{
	int i, tp;

	tt_wire_lock(wire);
	for (i = 0; i < n && tt_wire_shares_memory(wire, ranks[i]); i++)
		;
	for (n -= i, i = 0; n && tt_transports[i]; i++)
		if (wire->late[i])
			(void)tt_open_place(wire, i, &tp);
	tt_wire_unlock(wire);
}
