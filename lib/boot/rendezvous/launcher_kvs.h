/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The key-value space of a launcher: where the ranks of a job that has no TUTTI_ variable find rank
 * 0. Two kinds, each a table of blocking functions: launcher_pmi1.c and launcher_pmix.c.
 */
#ifndef TT_LAUNCHER_KVS_H
#define TT_LAUNCHER_KVS_H

#include "lib/boot/boot.h"

#define TT_KVS_KEY 64	 /* bytes of a key, with its end */
#define TT_KVS_VALUE 400 /* bytes of a value, with its end; PMI-1 allows 1,024 */

/* All return 0 or an error with a text; get: the value that the rank from put under key. */
struct tt_kvs {
	int (*open)(int rank, int nranks);
	int (*put)(const char *key, const char *value);
	int (*fence)(void); /* collective: afterwards all puts before it can be read */
	int (*get)(int from, const char *key, char value[TT_KVS_VALUE]);
	int (*close)(void);
};

extern const struct tt_kvs tt_kvs_pmi1, tt_kvs_pmix;

/*
 * Collective over the launcher's ranks: rank 0 makes an address, a nonce and a key, the other
 * ranks receive them sealed. Fills store, job, secret (unless the ranks have one) and listen_fd,
 * within init_timeout.
 */
int tt_kvs_meet(struct tt_boot_params *params);

#endif
