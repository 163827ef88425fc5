/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of transport shm: entries in the owner's segment that peers check before every
 * access. A stale key or a range out of bounds is an error at the initiator, and touches no memory.
 *
 * Peers map memory with a memfd. They access ordinary memory by process_vm_readv and writev, which
 * the kernel may forbid even where it allows /proc/PID/fd (Yama, seccomp). Callers must know this
 * in advance: a process for which the access seems forbidden does not offer TT_CAP_REG_ANY, and a
 * process that offers it does not connect to a peer that finds it forbidden (shm_vm_probe). Such a
 * pair uses another transport.
 */
#include "config.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_ptrace_capability(void)
{
	unsigned long long eff = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &eff) == 1)
			break;
	fclose(f);
	return eff >> CAP_SYS_PTRACE & 1;
}

/* Yama: 0 any process of this user, 1 descendants, 2 with CAP_SYS_PTRACE, 3 no process. */
static int yama_scope(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &scope) != 1)
		scope = 3;
	fclose(f);
	return scope;
}

bool shm_vm_allowed(void)
{
	uint64_t from = SHM_MAGIC, to = 0;
	int scope = yama_scope();

	if (scope >= 3 || (scope && !has_ptrace_capability()))
		return false;
	/* Oneself is always allowed: this finds the seccomp filters of containers. */
	return !tt_shm_vm_try(getpid(), &to, (uintptr_t)&from, sizeof(to)) && to == from;
}

int shm_vm_probe(const struct shm_blob *b)
{
	uint64_t got[2] = {0, 0};
	int err;

	if (!b->probe)
		return 0;
	err = tt_shm_vm_try((pid_t)b->pid, got, b->probe, sizeof(got));
	if (err)
		return tt_fail(err,
			       "shm: cannot read and write the memory of process %u: %s; "
			       "ptrace restrictions (Yama, seccomp) differ between the two",
			       b->pid, strerror(-err));
	if (memcmp(got, b->cookie, sizeof(got)))
		return tt_fail(-ESTALE,
			       "shm: process %u is not the peer: wrong cookie in its memory",
			       b->pid);
	return 0;
}

int shm_reg(struct tt_tp *base, const struct tt_mem *mem, unsigned access, struct tt_mr **mr)
{
	struct shm_tp *tp = (struct shm_tp *)base;

	if (!mem->len || (uint64_t)(uintptr_t)mem->addr + mem->len < mem->len)
		return tt_fail(-EINVAL, "shm: a region of %zu bytes cannot be registered",
			       mem->len);
	if (mem->memfd < 0 && !(base->caps & TT_CAP_REG_ANY))
		return tt_fail(
			-EOPNOTSUPP,
			"shm: processes cannot access each other's memory on this system "
			"(ptrace_scope or seccomp): only memory from tutti_alloc is reachable");
	if (tt_shm_table_full(&tp->regs))
		return tt_fail(
			-ENOMEM,
			"shm: more than %d registrations in one process; register larger pieces",
			SHM_REGS);
	return tt_shm_list(&tp->regs, base, mem, access, mr);
}

int shm_dereg(struct tt_mr *mr)
{
	struct shm_tp *tp = (struct shm_tp *)mr->tp;
	uint64_t id = mr->rkey.word[0];
	bool mappable = tp->regs.entry[mr->rkey.word[1]].at.memfd >= 0;
	struct shm_ep *ep;
	int err = 0;
	uint32_t i;

	tt_shm_unlist(&tp->regs, mr);
	for (i = 0; i < tp->neps; i++) {
		ep = tp->eps[i];
		if (!ep)
			continue;
		if (shm_fence(tp, ep->in, id))
			err = tt_fail(-ETIMEDOUT,
				      "shm: process %d is stopped while it copies from or to "
				      "a region that is being deregistered",
				      (int)shm_producer(ep->in));
		/* So that the peer unmaps it and the pages can be given back. */
		if (mappable && ep->out) {
			atomic_store(&ep->out->sweep, 1);
			shm_ring_bell(ep);
		}
	}
	tt_shm_mr_free(&tp->regs, mr, !err); /* after an error a peer may still read the entry */
	return err;
}
