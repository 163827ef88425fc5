/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a parameter server that are collective over all ranks, or over all workers. */
#include <errno.h>
#include <string.h>

#include "lib/api/api.h"
#include "lib/ps/message.h"
#include "lib/ps/ps_open.h"
#include "lib/ps/resize/resize_run.h"

int tutti_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
		  struct tutti_ps **out)
{
	int err = tt_check_waiting(__func__, comm);

	return err ? err : tt_ps_open(comm, config, out);
}

static int check_ps(const char *call, const struct tutti_ps *ps)
{
	int err = tt_ps_check(call, ps);

	return err ? err : tt_group_refuse(call);
}

int tutti_ps_close(struct tutti_ps *ps)
{
	int err = check_ps(__func__, ps);

	return err ? err : tt_ps_close(ps);
}

/*
 * With an open group no collective can report the error to the other ranks: it would wait for the
 * group's end.
 */
int tutti_ps_resize(struct tutti_ps *ps, struct tutti_comm *comm,
		    const struct tutti_ps_config *config, struct tutti_ps **newps)
{
	int err = tt_check_comm(comm);

	if (!err && ps)
		err = tt_ps_check(TT_PS_RESIZE, ps);
	if (!err)
		err = tt_group_refuse(TT_PS_RESIZE);
	return err ? err : tt_ps_resize(ps, comm, config, newps);
}

int tutti_ps_dense(struct tutti_ps *ps, const char *name, size_t count,
		   enum tutti_datatype datatype, const struct tutti_ps_options *options,
		   struct tutti_ps_table **table)
{
	struct tutti_ps_table like = {.count = count, .width = 1, .datatype = datatype};
	int err = check_ps(__func__, ps);

	return err ? err : tt_ps_table(ps, name, &like, options, table);
}

int tutti_ps_rows(struct tutti_ps *ps, const char *name, size_t width, uint64_t rows,
		  enum tutti_datatype datatype, const struct tutti_ps_options *options,
		  struct tutti_ps_table **table)
{
	struct tutti_ps_table like = {
		.rows = true, .count = rows, .width = width, .datatype = datatype};
	int err = check_ps(__func__, ps);

	return err ? err : tt_ps_table(ps, name, &like, options, table);
}

int tutti_ps_find(struct tutti_ps *ps, const char *name, struct tutti_ps_table **table)
{
	struct tutti_ps_table *found;
	int err = tt_ps_check(__func__, ps);

	if (err)
		return err;
	if (!name || !table)
		return tt_fail(-EINVAL, "tutti_ps_find: %s is NULL", name ? "table" : "name");
	found = tt_ps_find(ps, name);
	if (!found)
		return tt_fail(-ENOENT, "there is no table '%s'", name);
	*table = found;
	return 0;
}

int tutti_ps_server_bytes(struct tutti_ps *ps, int index, uint64_t *bytes)
{
	int err = tt_ps_check(__func__, ps);

	if (err)
		return err;
	if (!bytes)
		return tt_fail(-EINVAL, "tutti_ps_server_bytes: bytes is NULL");
	if (index < 0 || index >= ps->nservers)
		return tt_fail(-EINVAL, "tutti_ps_server_bytes: %d is not a server (0 to %d)",
			       index, ps->nservers - 1);
	*bytes = ps->load[index];
	return 0;
}

static int check_path(const char *call, struct tutti_ps *ps, const char *path)
{
	int err = tt_ps_check_worker(call, ps);

	if (err)
		return err;
	if (!path || !path[0] || strlen(path) > sizeof(((struct tt_ps_order *)0)->path) - 8)
		return tt_fail(-EINVAL, "%s: path is %s", call,
			       !path	 ? "NULL"
			       : path[0] ? "too long"
					 : "empty");
	return 0;
}

int tutti_ps_save(struct tutti_ps *ps, const char *path)
{
	int err = check_path(__func__, ps, path);

	return err ? err : tt_ps_save(ps, path);
}

int tutti_ps_restore(struct tutti_ps *ps, const char *path)
{
	int err = check_path(__func__, ps, path);

	return err ? err : tt_ps_restore(ps, path);
}
