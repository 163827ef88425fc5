/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate of a running job: how new processes are admitted (tutti_comm_grow).
 *
 * The leader of the live ranks holds the gate open for a while, in the caller's thread. New
 * processes find it through a file in TUTTI_BOOT_DIR, prove that they know the secret, wait, and
 * receive their rank and the unique id of the job that all then start together. See admission.c.
 */
#ifndef TT_ADMISSION_H
#define TT_ADMISSION_H

#include "lib/boot/boot.h"
#include "lib/boot/rendezvous/link.h"

struct tt_gate;

/* Opens a gate for this many guests, on the address of iface, as for tt_unique_id_make. */
int tt_gate_open(const struct tt_env *env, const char *iface, int guests, struct tt_gate **gate);
/*
 * Waits until all guests are there. Calls stop often, and returns its result if not 0. -ETIMEDOUT
 * at the deadline, with a text about missing and rejected processes.
 */
int tt_gate_wait(struct tt_gate *gate, uint64_t deadline, int (*stop)(void *), void *arg);
/*
 * Sends the guests, from rank first on, the id of a job of nranks, which must stand within
 * boot_ms.
 */
void tt_gate_admit(struct tt_gate *gate, int first, int nranks, int64_t boot_ms,
		   const struct tutti_unique_id *id);
void tt_gate_close(struct tt_gate *gate);

/*
 * A new process waits for admission, at most init_timeout. In: directory, name and perhaps the
 * secret. Out: rank, size, store, job and the new secret.
 */
int tt_gate_enter(struct tt_boot_params *params);

/*
 * A guest's side of a connection to a gate: owner and ops of the link; for admission.c and
 * fuzzing.
 */
struct tt_visit {
	struct tt_boot_params *params;
	struct tt_self self;
	struct tutti_unique_id id;
	int rank, nranks;
	int64_t boot_ms;
	bool admitted;
	int err;	/* final */
	char last[256]; /* why it has not worked yet */
};
extern const struct tt_link_ops tt_visit_ops;

#endif
