/* SPDX-License-Identifier: BSD-3-Clause */
/* TUTTI_FAULT, parsed. transports/fault and inject.h produce the faults. */
#ifndef TT_FAULTS_H
#define TT_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Probabilities are 0 to 1; counts of 0 mean never. */
struct tt_faults {
	int rank; /* the only rank to which this happens; -1: all */
	/* In transports wrapped by transports/fault. */
	uint64_t seed;
	double delay;	      /* events held back ... */
	unsigned delay_us;    /* ... for at most this time */
	double reorder;	      /* events overtaken by later ones */
	double again;	      /* operations refused with -EAGAIN */
	double hold;	      /* operations accepted now and started at a later poll */
	double error;	      /* operations that fail, and their endpoint with them */
	uint64_t error_after; /* the operation that fails, counted from 1 */
	uint64_t die_after;   /* the operation after which the process kills itself */
	bool finish;	      /* never complete in place */
	double flip;	      /* puts and gets of which one bit arrives changed */
	uint64_t flip_after;  /* this happens to the first put or get from this operation on */
	uint64_t max_put;     /* longest put or get, longer ones are refused; 0: the inner one's */
	bool one_place;	      /* gets land in one place only: no TT_CAP_GET_HEAD */
	/* Anywhere in the library: the call that fails, counted from 1. */
	uint64_t alloc;	 /* of memory */
	uint64_t reg;	 /* registrations with a transport */
	uint64_t socket; /* sockets, and other new descriptors */
};

/* 0, or -EINVAL with a text that names the key or value and what is allowed. */
int tt_faults_parse(const char *text, struct tt_faults *faults);

#endif
