/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: parsing, resolving, choosing the local one, listening. */
#ifndef TT_ADDRESS_H
#define TT_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define TT_ADDR_MAX 8

struct tt_addr {
	struct sockaddr_storage sa;
	socklen_t len;
};

/* "1.2.3.4:56" or "[fe80::1]:56"; "" for any other family. */
void tt_addr_text(const struct sockaddr *sa, char *text, size_t size);
int tt_addr_port(const struct sockaddr *sa);
void tt_addr_set_port(struct tt_addr *addr, int port);
bool tt_addr_is_loopback(const struct sockaddr *sa);
/* Numeric text to an address. -EINVAL. */
int tt_addr_numeric(const char *host, int port, struct tt_addr *addr);
/* Splits HOST:PORT or [HOST]:PORT. -EINVAL if it is neither; records no error. */
int tt_addr_split(const char *text, char *host, size_t size, int *port);
/*
 * Resolves HOST:PORT to at most TT_ADDR_MAX addresses, *n receives how many. -TUTTI_EBOOT with a
 * sentence that names host and reason; -EAGAIN, also with a sentence, if the name service may know
 * it later.
 */
int tt_addr_resolve(const char *store, struct tt_addr *addrs, int *n);
/*
 * A local address: that of iface (a name or numeric address) if given; else loopback if target is
 * on loopback; else the one that reaches target; else (target NULL) the default route's.
 */
int tt_addr_local(const char *iface, const struct sockaddr *target, struct tt_addr *addr);
struct tt_boot_params;
/* The address to listen on while no peer is known: loopback if all ranks are on this host. */
int tt_boot_own_addr(const struct tt_boot_params *params, struct tt_addr *addr);
/*
 * Makes a listening socket bound to exactly addr, nonblocking; port 0: any, written back to addr.
 */
int tt_addr_listen(struct tt_addr *addr, int *fd);

#endif
