/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that processes of one host share: below lib/node, transports/shm and shared windows.
 *
 * A *segment* is a memfd that starts with the identity of its owner and the pipe its owner sleeps
 * on. Peers of the same user open it as /proc/PID/fd/N and accept it only if it has the cookie they
 * were told over an authenticated link.
 *
 * A *table* in a segment lists memory of its owner. A peer maps an entry when it first uses it, and
 * unmaps it some time after the owner has taken the entry back. The users of this layer decide what
 * protects an access: lib/node has claims, transports/shm has `busy`.
 */
#ifndef TT_SEGMENT_H
#define TT_SEGMENT_H

#include <stdatomic.h>
#include <sys/types.h>

#include "lib/wire/transport.h"

/* segment.c */

struct tt_shm_head {
	uint64_t magic; /* includes the layout version of the segment */
	uint64_t cookie[2];
	int32_t pid, wake_fd; /* wake_fd: write end of the pipe, in the owner */
	uint64_t wake_ino;
};

struct tt_shm_seg {
	struct tt_shm_head *head; /* NULL: none */
	size_t len;
	uint64_t ino;
	int fd, wake[2];
};

/* Maps a new memfd of len zero bytes. Its descriptor, or a negative code. */
int tt_shm_create(const char *name, size_t len, void **addr, uint64_t *ino);
int tt_shm_seg_create(struct tt_shm_seg *seg, const char *name, size_t len, uint64_t magic,
		      const uint64_t cookie[2]);
void tt_shm_seg_free(struct tt_shm_seg *seg);
/* Whether a mapped segment is the one that was announced. */
bool tt_shm_is(const struct tt_shm_head *head, uint64_t magic, const uint64_t cookie[2]);
/* Opens the pipe of a peer. Its descriptor, or a negative code. */
int tt_shm_open_wake(const struct tt_shm_head *head, pid_t pid);
/* Wakes the owner of a pipe if it sleeps; the caller's stores are visible first. */
void tt_shm_wake(_Atomic uint32_t *sleeping, int wake_fd);
/* Empties this process's own pipe. */
void tt_shm_drain(const struct tt_shm_seg *seg);
/* Reads a peer's ordinary memory: whether this process may, and write there; without a text. */
int tt_shm_vm_try(pid_t pid, void *local, uint64_t remote, size_t len);
/*
 * Reads or writes a peer's ordinary memory. 0 or a negative code with a text; -EFAULT: the peer has
 * not mapped it; -TT_EFAULT_HERE: this process has not; -ESRCH: the peer exits.
 */
int tt_shm_vm_copy(pid_t pid, void *local, uint64_t remote, size_t len, bool write);

/*
 * After err from an access to a process's memory or descriptors: -EPERM with a text if the process
 * lives and does not permit the access, as after a change of its user; else another code, without
 * one.
 */
int tt_shm_refusal(pid_t pid, int err, const char *what);

/* listed_memory.c */

/* A part of a memfd of another process, or its ordinary memory. */
struct tt_shm_place {
	uint64_t len, memfd_off, ino;
	uint32_t access; /* enum tt_access */
	int32_t memfd;	 /* < 0: ordinary memory */
	uint32_t align;	 /* page size of the memfd */
	uint32_t pad;
};

/* An entry of a table: a cache line. id is never reused; 0: none. */
struct tt_shm_entry {
	_Atomic uint64_t id;
	uint64_t base; /* in the owner */
	struct tt_shm_place at;
	uint64_t pad;
};
_Static_assert(sizeof(struct tt_shm_entry) == 64, "doc/WIRE.md");

/* Describes memory of this process for its peers. */
int tt_shm_place(const struct tt_mem *mem, unsigned access, struct tt_shm_place *at);

/* The owner's side of a table. The key of an entry is {id, place in the table, base, length}. */
struct tt_shm_table {
	struct tt_shm_entry *entry; /* in the segment */
	uint32_t size, used, nfree;
	uint32_t *free;
	uint64_t last_id;
};

int tt_shm_table_init(struct tt_shm_table *t, struct tt_shm_entry *entry, uint32_t size);
void tt_shm_table_free(struct tt_shm_table *t);
bool tt_shm_table_full(const struct tt_shm_table *t);
/* The table is not full. */
int tt_shm_list(struct tt_shm_table *t, struct tt_tp *tp, const struct tt_mem *mem, unsigned access,
		struct tt_mr **mr);
/* Peers see that the entry is gone; afterwards its place may be reused, and mr is freed. */
void tt_shm_unlist(struct tt_shm_table *t, const struct tt_mr *mr);
void tt_shm_mr_free(struct tt_shm_table *t, struct tt_mr *mr, bool reuse);

/* Memory of a peer, mapped here. */
struct tt_shm_map {
	uint64_t id; /* of its entry; 0: none */
	void *addr;  /* starts at a page of the memfd */
	size_t len;
	char *ptr; /* where the memory starts */
	bool kept; /* stays until tt_shm_maps_free, even if another entry takes its place */
};

/* The peer's side of a table. */
struct tt_shm_maps {
	struct tt_shm_map *map, *kept; /* by place in the table; those that lost their place */
	uint32_t n, nkept;
};

/* Both return 0 or a negative code, without a text. The entry stays listed during the call. */
int tt_shm_map(pid_t pid, const struct tt_shm_place *at, struct tt_shm_map *map);
int tt_shm_maps_add(struct tt_shm_maps *maps, pid_t pid, const struct tt_shm_entry *table,
		    uint32_t i, uint64_t id);
/* Unmaps memory whose owner has taken the entry back. */
void tt_shm_maps_sweep(struct tt_shm_maps *maps, const struct tt_shm_entry *table);
void tt_shm_maps_free(struct tt_shm_maps *maps);

static inline bool tt_shm_maps_has(const struct tt_shm_maps *maps, uint64_t i, uint64_t id)
{
	return i < maps->n && maps->map[i].id == id;
}

#endif
