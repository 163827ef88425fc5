/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of tutti_doctor.
 *
 *	main.c		the command line
 *	findings.c	findings: collected, printed, to and from JSON
 *	limits.c	checks of limits, memory and CPUs of this node
 *	network.c	checks of names, interfaces and addresses of this node
 *	devices.c	checks of libraries, transports and RDMA devices of this node
 *	cluster.c	several hosts: one agent on each, and what is compared between them
 *	agent.c		that agent
 */
#ifndef TUTTI_DOCTOR_H
#define TUTTI_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/run/run.h"

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL };

struct finding {
	char host[256], check[24];
	enum level level;
	char what[400], cost[240], mend[400]; /* cost and mend are empty at LEVEL_OK */
};

struct findings {
	struct finding *v;
	int n;
	char host[256]; /* of those that are added next */
};

/* Adds a finding. cost: what it does to a job; mend: the command, or "". */
void found(struct findings *f, const char *check, enum level level, const char *cost,
	   const char *mend, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void found_ok(struct findings *f, const char *check, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
json_t *findings_json(const struct findings *f);
/* Adds those of an array that another host sent. */
void findings_add_json(struct findings *f, json_t *array);
void findings_print(const struct findings *f, bool json, bool all);
enum level findings_worst(const struct findings *f);
void findings_free(struct findings *f);

/* The first line of a file, without its end; false: cannot be read. */
bool read_line_of(const char *path, char *line, size_t size);

void check_limits(struct findings *f);
void check_network(struct findings *f);
void check_devices(struct findings *f);

/* The address of a host in a check of several. */
struct node {
	char address[64], interface[16];
	int mtu;
};
/* The address and interface that a job would use. A negative code with a text: none. */
int find_node(struct node *node);

/* The remote end, on standard input and output. */
int agent(void);
int check_cluster(struct findings *f, const struct hosts *hosts, const char *ssh, int64_t ms);

#endif
