/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks meet through their launcher's key-value space; see launcher_kvs.h.
 *
 *	every other rank	puts the public half of a fresh key pair
 *	all			fence
 *	rank 0			seals its unique id for each rank, and puts each one
 *	all			fence
 *	every other rank	gets and opens its own
 *
 * The space is not private: launchers carry it between hosts in clear. The unique id holds the
 * job's key, so it travels sealed (X25519, XSalsa20-Poly1305: crypto_box_seal), and readers of the
 * launcher's traffic learn nothing. A process that can also change that traffic can pose as a rank;
 * it can equally make the launcher run programs. SECURITY.md says which launchers guard against it.
 *
 * The launcher's calls block without a deadline, so they run in a thread. One that is late is left
 * behind with its state.
 */
#include "lib/boot/rendezvous/launcher_kvs.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/spawn.h"
#include "lib/boot/rendezvous/discover.h"

#define SEALED (sizeof(struct tutti_unique_id) + crypto_box_SEALBYTES)
#define NOT_MADE "-" /* rank 0's id, if it could not make one */

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	const struct tt_kvs *kvs;
	int rank, nranks, start; /* which start of this process */
	char iface[64];
	struct tutti_unique_id id;
	bool made;		     /* id is this process's */
	bool finished, abandoned;    /* under lock */
	struct tutti_error_info err; /* code 0: none */
};

static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static bool busy; /* a launcher takes part in one meeting of a process at a time */
static int starts;

_Static_assert(sodium_base64_ENCODED_LEN(SEALED, sodium_base64_VARIANT_URLSAFE_NO_PADDING) <=
		       TT_KVS_VALUE,
	       "a sealed id fits into a value");

static void name_key(const struct meeting *m, const char *what, int rank, char key[TT_KVS_KEY])
{
	snprintf(key, TT_KVS_KEY, "tutti-%s-%d-%d", what, m->start, rank);
}

static int put_bytes(const struct meeting *m, const char *what, int rank, const void *bytes,
		     size_t len)
{
	char key[TT_KVS_KEY], value[TT_KVS_VALUE];

	name_key(m, what, rank, key);
	sodium_bin2base64(value, sizeof(value), bytes, len,
			  sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	return m->kvs->put(key, value);
}

static int get_bytes(const struct meeting *m, int from, const char *what, int rank, void *bytes,
		     size_t len)
{
	char key[TT_KVS_KEY], value[TT_KVS_VALUE];
	size_t n = 0;
	int err;

	name_key(m, what, rank, key);
	err = m->kvs->get(from, key, value);
	if (err)
		return err;
	if (!strcmp(value, NOT_MADE))
		return tt_fail(-TUTTI_EBOOT, "rank 0 could not start: see its own message");
	if (sodium_base642bin(bytes, len, value, strlen(value), NULL, &n, NULL,
			      sodium_base64_VARIANT_URLSAFE_NO_PADDING) ||
	    n != len)
		return tt_fail(-TUTTI_EBOOT,
			       "the launcher's key-value space: %s of rank %d is damaged", what,
			       from);
	return 0;
}

/* Rank 0, for one rank. */
static int seal(const struct meeting *m, int rank)
{
	unsigned char key[crypto_box_PUBLICKEYBYTES], sealed[SEALED];
	int err = get_bytes(m, rank, "key", rank, key, sizeof(key));

	if (err)
		return err;
	if (crypto_box_seal(sealed, m->id.bytes, sizeof(m->id), key))
		return tt_fail(-TUTTI_EBOOT, "the public key of rank %d is not valid", rank);
	return put_bytes(m, "id", rank, sealed, sizeof(sealed));
}

/* A rank 0 without an id still takes part, as the other ranks would wait for it. */
static int lead(struct meeting *m)
{
	struct tutti_error_info why = {.size = sizeof(why)};
	int err, made = tt_unique_id_make(m->iface, &m->id), r;
	char key[TT_KVS_KEY];

	m->made = !made;
	if (made)
		tutti_last_error(&why);
	err = m->kvs->fence();
	for (r = 1; !err && r < m->nranks; r++) {
		name_key(m, "id", r, key);
		err = made ? m->kvs->put(key, NOT_MADE) : seal(m, r);
	}
	if (!err)
		err = m->kvs->fence();
	return made ? tt_fail_info(&why) : err;
}

static int follow(struct meeting *m)
{
	unsigned char key[crypto_box_PUBLICKEYBYTES], private[crypto_box_SECRETKEYBYTES];
	unsigned char sealed[SEALED];
	int err;

	crypto_box_keypair(key, private);
	err = put_bytes(m, "key", m->rank, key, sizeof(key));
	if (!err)
		err = m->kvs->fence();
	if (!err)
		err = m->kvs->fence();
	if (!err)
		err = get_bytes(m, 0, "id", m->rank, sealed, sizeof(sealed));
	if (!err && crypto_box_seal_open(m->id.bytes, sealed, sizeof(sealed), key, private))
		err = tt_fail(-TUTTI_EAUTH,
			      "the id that rank 0 sealed for rank %d cannot be "
			      "opened: it was changed in transit",
			      m->rank);
	sodium_memzero(private, sizeof(private));
	return err;
}

static void free_meeting(struct meeting *m)
{
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->cond);
	sodium_memzero(m, sizeof(*m));
	free(m);
}

/* Whether busy has changed. */
static bool set_busy(bool value)
{
	bool changed;

	pthread_mutex_lock(&busy_lock);
	changed = busy != value;
	busy = value;
	pthread_mutex_unlock(&busy_lock);
	return changed;
}

static void *meet(void *arg)
{
	struct meeting *m = arg;
	struct tutti_error_info why = {.size = sizeof(why)};
	int err = m->kvs->open(m->rank, m->nranks), closed;
	bool abandoned;

	if (!err) {
		err = m->rank ? follow(m) : lead(m);
		if (err)
			tutti_last_error(&why);
		closed = m->kvs->close();
		if (err)
			tt_fail_info(&why);
		else
			err = closed;
	}
	if (err)
		tutti_last_error(&why);
	pthread_mutex_lock(&m->lock);
	m->err = why;
	m->err.code = err;
	m->finished = true;
	abandoned = m->abandoned;
	pthread_cond_signal(&m->cond);
	pthread_mutex_unlock(&m->lock);
	if (!abandoned)
		return NULL;
	if (m->made)
		tt_unique_id_drop(&m->id);
	free_meeting(m);
	set_busy(false);
	return NULL;
}

static struct meeting *new_meeting(const struct tt_boot_params *p)
{
	struct meeting *m = calloc(1, sizeof(*m));
	pthread_condattr_t attr;

	if (!m)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&m->lock, NULL);
	m->kvs = p->kvs;
	m->rank = p->rank;
	m->nranks = p->nranks;
	m->start = starts++;
	snprintf(m->iface, sizeof(m->iface), "%s",
		 p->one_host && !p->iface[0] ? "127.0.0.1" : p->iface);
	return m;
}

/* -ETIMEDOUT: the thread has been left behind, and frees m. */
static int await(struct meeting *m, const struct tt_boot_params *p)
{
	uint64_t deadline = tt_deadline_ms(p->init_timeout);
	struct timespec until = {.tv_sec = (time_t)(deadline / TT_SEC),
				 .tv_nsec = (long)(deadline % TT_SEC)};
	int err = 0;

	pthread_mutex_lock(&m->lock);
	while (!m->finished && !err)
		err = deadline == TT_NEVER ? pthread_cond_wait(&m->cond, &m->lock)
					   : pthread_cond_timedwait(&m->cond, &m->lock, &until);
	m->abandoned = !m->finished;
	err = m->abandoned ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&m->lock);
	return err;
}

static int run(struct meeting *m, struct tt_boot_params *p)
{
	pthread_t thread;
	int err = tt_spawn(&thread, meet, m, "the thread that asks the launcher");

	if (err) {
		free_meeting(m);
		set_busy(false);
		return err;
	}
	if (await(m, p)) {
		pthread_detach(thread);
		return tt_fail(-ETIMEDOUT,
			       "rank %d of %d (%s): the ranks did not meet through the launcher "
			       "within %lldms (TUTTI_INIT_TIMEOUT): a rank has not called "
			       "tutti_init, or the launcher does not answer",
			       p->rank, p->nranks, p->origin, (long long)p->init_timeout);
	}
	pthread_join(thread, NULL);
	err = m->err.code ? tt_fail_info(&m->err) : tt_unique_id_use(&m->id, p);
	if (err && m->made)
		tt_unique_id_drop(&m->id);
	free_meeting(m);
	set_busy(false);
	return err;
}

/* By its name, as the symbols of a library that Python has loaded are not in the global scope. */
static int is_mpi(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const names[] = {"libmpi.so", "libmpich", "libmpi_"};
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	size_t i;

	(void)size;
	(void)arg;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return 1;
	return 0;
}

/* An MPI library in the process speaks to the launcher itself, or will. */
static int check_mpi(const struct tt_boot_params *p)
{
	if (!dlsym(RTLD_DEFAULT, "PMPI_Init") && !dl_iterate_phdr(is_mpi, NULL))
		return 0;
	return tt_fail(-EINVAL,
		       "this is rank %d of %d (%s), and the launcher's key-value space belongs to "
		       "the MPI library in this process; give config.id or config.allgather, or "
		       "set TUTTI_BOOT_DIR to a directory that all ranks share",
		       p->rank, p->nranks, p->origin);
}

int tt_kvs_meet(struct tt_boot_params *params)
{
	unsigned char own[sizeof(params->secret)];
	bool have = params->have_secret;
	struct meeting *m;
	int err = check_mpi(params);

	if (err)
		return err;
	if (!set_busy(true))
		return tt_fail(-EBUSY, "another start of this process still waits for the "
				       "launcher's key-value space");
	m = new_meeting(params);
	if (!m) {
		set_busy(false);
		return tt_fail(-ENOMEM, "no memory to ask the launcher");
	}
	memcpy(own, params->secret, sizeof(own));
	err = run(m, params);
	if (have) /* TUTTI_SECRET_FILE: the ranks need not trust the launcher */
		memcpy(params->secret, own, sizeof(own));
	sodium_memzero(own, sizeof(own));
	return err;
}
