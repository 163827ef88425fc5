/* SPDX-License-Identifier: BSD-3-Clause */
/* Restores signal handlers that a library loaded with libfabric has changed. */
#ifndef TT_SIGNALS_H
#define TT_SIGNALS_H

/*
 * libinfinipath and libpsm2, which libfabric's psm providers pull in, install handlers for SIGSEGV,
 * SIGINT and others when they are loaded: those print a backtrace and exit with status 1. A program
 * that crashes must die by its signal instead, so that core dumps, debuggers and launchers see it.
 * Other handlers are left alone.
 */
void tt_signals_restore(void);

#endif
