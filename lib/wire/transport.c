/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of transports, and stubs for the operations that a transport lacks. */
#include "config.h"
#include "lib/wire/transport.h"

#include <dirent.h>
#include <errno.h>

#define TT_TRANSPORT(table) extern const struct tt_tp_ops table;
#include "lib/wire/transports.def"
#undef TT_TRANSPORT

const struct tt_tp_ops *const tt_transports[] = {
#define TT_TRANSPORT(table) &table,
#include "lib/wire/transports.def"
#undef TT_TRANSPORT
	NULL};

bool tt_transport_rdma(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *e;
	bool any = false;

	while (dir && !any && (e = readdir(dir)))
		any = e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return any;
}

static int no_rma(struct tt_ep *ep, const struct tt_rma *rma)
{
	return -EOPNOTSUPP;
}

static int no_amo(struct tt_ep *ep, const struct tt_amo *amo)
{
	return -EOPNOTSUPP;
}

static int no_msg(struct tt_ep *ep, const void *data, size_t len)
{
	return -EOPNOTSUPP;
}

static int no_map(struct tt_ep *ep, uint64_t remote, size_t len, const struct tt_rkey *rkey,
		  void **ptr)
{
	return -EOPNOTSUPP;
}

void tt_ep_ops_fill(struct tt_ep_ops *ops)
{
	if (!ops->put)
		ops->put = no_rma;
	if (!ops->get)
		ops->get = no_rma;
	if (!ops->amo)
		ops->amo = no_amo;
	if (!ops->msg)
		ops->msg = no_msg;
	if (!ops->map)
		ops->map = no_map;
}
