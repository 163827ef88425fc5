/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unique ids: made by one process and distributed by the caller. The process that made an id
 * already listens; its socket waits here until rank 0's tutti_init in this process takes it.
 *
 *	  0  8  "TUTTIuid"
 *	  8 88  HOST:PORT of the socket, numeric, NUL padded
 *	 96 16  job nonce
 *	112 32  key of the job (see auth.c)
 *	144 16  BLAKE2b-128 of the preceding 144 bytes, against truncated or garbled ids
 *	160 32  zero
 */
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "lib/boot/rendezvous/address.h"
#include "lib/boot/rendezvous/discover.h"

struct made {
	struct tt_list node;
	unsigned char job[16];
	int fd;
};

struct id_bytes {
	char magic[8];
	char store[88];
	unsigned char job[16], key[32], sum[16], zero[32];
};

_Static_assert(sizeof(struct id_bytes) == sizeof(struct tutti_unique_id), "an id is its bytes");

static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_list made_ids = {&made_ids, &made_ids};

/* Removes the socket of job from the list and returns it; -1: not made here, or taken already. */
static int take(const unsigned char job[16])
{
	struct tt_list *pos, *tmp;
	int fd = -1;

	pthread_mutex_lock(&made_lock);
	tt_list_each(pos, tmp, &made_ids)
	{
		struct made *m = tt_container(pos, struct made, node);

		if (memcmp(m->job, job, sizeof(m->job)))
			continue;
		fd = m->fd;
		tt_list_del(&m->node);
		free(m);
		break;
	}
	pthread_mutex_unlock(&made_lock);
	return fd;
}

static void sum(const struct id_bytes *b, unsigned char out[16])
{
	crypto_generichash(out, 16, (const unsigned char *)b, offsetof(struct id_bytes, sum), NULL,
			   0);
}

int tt_unique_id_make(const char *iface, struct tutti_unique_id *id)
{
	struct made *m = calloc(1, sizeof(*m));
	struct id_bytes b = {.magic = {'T', 'U', 'T', 'T', 'I', 'u', 'i', 'd'}};
	struct tt_addr addr;
	int err;

	if (!m)
		return tt_fail(-ENOMEM, "no memory for a unique id");
	if (sodium_init() < 0) {
		free(m);
		return tt_fail(-EIO, "libsodium could not be initialized");
	}
	err = tt_addr_local(iface, NULL, &addr);
	if (!err)
		err = tt_addr_listen(&addr, &m->fd);
	if (err) {
		free(m);
		return err;
	}
	tt_addr_text((struct sockaddr *)&addr.sa, b.store, sizeof(b.store));
	randombytes_buf(b.job, sizeof(b.job));
	randombytes_buf(b.key, sizeof(b.key));
	sum(&b, b.sum);
	memcpy(m->job, b.job, sizeof(m->job));
	pthread_mutex_lock(&made_lock);
	tt_list_add(&made_ids, &m->node);
	pthread_mutex_unlock(&made_lock);
	memcpy(id, &b, sizeof(b));
	sodium_memzero(&b, sizeof(b));
	return 0;
}

int tt_unique_id_use(const struct tutti_unique_id *id, struct tt_boot_params *params)
{
	struct id_bytes b;
	unsigned char want[16];

	memcpy(&b, id, sizeof(b));
	sum(&b, want);
	if (memcmp(b.magic, "TUTTIuid", 8) || memcmp(want, b.sum, sizeof(want)))
		return tt_fail(-EINVAL,
			       "the unique id is not from tutti_unique_id_get, or was damaged in "
			       "transit; pass all %zu bytes to every rank",
			       sizeof(*id));
	if (params->rank == 0) {
		params->listen_fd = take(b.job);
		if (params->listen_fd < 0)
			return tt_fail(
				-EINVAL,
				"rank 0 must be the process that called tutti_unique_id_get, and "
				"an id serves one tutti_init");
	}
	b.store[sizeof(b.store) - 1] = 0;
	memcpy(params->store, b.store, sizeof(b.store));
	memcpy(params->job, b.job, sizeof(b.job));
	memcpy(params->secret, b.key, sizeof(b.key));
	params->have_secret = true;
	sodium_memzero(&b, sizeof(b));
	return 0;
}

void tt_unique_id_drop(const struct tutti_unique_id *id)
{
	struct id_bytes b;
	int fd;

	memcpy(&b, id, sizeof(b));
	fd = take(b.job);
	if (fd >= 0)
		close(fd);
	sodium_memzero(&b, sizeof(b));
}

int tutti_unique_id_get(struct tutti_unique_id *id)
{
	struct tt_env env;
	int err;

	if (!id)
		return tt_fail(-EINVAL, "tutti_unique_id_get: id is NULL");
	err = tt_env_load(&env);
	if (err)
		return err;
	err = tt_unique_id_make(env.iface.text, id);
	tt_env_free(&env);
	return err;
}
