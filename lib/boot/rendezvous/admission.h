/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The gate of a job that runs: how new processes come in (tutti_comm_grow).
 *
 * The leader of those that are there holds it open for a while, in the caller's thread; new
 * processes find it through a file in TUTTI_BOOT_DIR, prove that they know the secret, wait, and
 * are told their rank and the unique id of the job that all of them then start together. See
 * admission.c.
 */
#ifndef TT_ADMISSION_H
#define TT_ADMISSION_H

#include "lib/boot/boot.h"
#include "lib/boot/rendezvous/link.h"

struct tt_gate;

/* For so many guests, listening on the address that iface says, as for tt_unique_id_make. */
int tt_gate_open(const struct tt_env *env, const char *iface, int guests, struct tt_gate **gate);
/*
 * Wait until all guests are there; stop is asked often, and what it returns, if not 0, is returned.
 * -ETIMEDOUT at the deadline, with a text that says who was missing and who was turned away.
 */
int tt_gate_wait(struct tt_gate *gate, uint64_t deadline, int (*stop)(void *), void *arg);
/*
 * Tell the guests, from rank first on, the id of a job of nranks, which must stand within boot_ms.
 */
void tt_gate_admit(struct tt_gate *gate, int first, int nranks, int64_t boot_ms,
		   const struct tutti_unique_id *id);
void tt_gate_close(struct tt_gate *gate);

/*
 * A new process: wait to be let in, for init_timeout at most. params have directory, name and
 * perhaps the secret; they come to have rank, size, store, job and the new secret.
 */
int tt_gate_enter(struct tt_boot_params *params);

/*
 * Its side of a connection to a gate: owner and ops of the link; for admission.c, and for fuzzing.
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
