/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports, devices and settings on this machine, as tutti_info prints them. */
#ifndef TUTTI_INFO_H
#define TUTTI_INFO_H

#include <tutti/error.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/*
 * Called once per fact. section is "version", "transport", "host", "codec" or "variable"; name is
 * the thing (a device, a variable), key and value say something about it, e.g. ("variable",
 * "TUTTI_CHUNK", "default", "256K"). The strings are valid during the call only.
 */
typedef void tutti_describe_fn(const char *section, const char *name, const char *key,
			       const char *value, void *arg);

/**
 * tutti_describe - report every fact to fn; needs no context. 0 or a negative code. Thread-safe.
 */
int tutti_describe(tutti_describe_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
