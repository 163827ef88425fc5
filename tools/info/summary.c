/* SPDX-License-Identifier: BSD-3-Clause */
/* The summary of tutti_info: devices in use, reasons, and variables that are set. */
#include <stdio.h>
#include <string.h>

#include "tools/info/info.h"

#define DEVICES_SHOWN 5 /* of a transport */

static const char *value_of(const struct facts *facts, const char *section, const char *name,
			    const char *key)
{
	int i;

	for (i = 0; i < facts->n; i++)
		if (!strcmp(facts->fact[i].section, section) &&
		    !strcmp(facts->fact[i].name, name) && !strcmp(facts->fact[i].key, key))
			return facts->fact[i].value;
	return "";
}

static bool usable(const struct facts *facts, const char *name)
{
	return !strcmp(value_of(facts, "transport", name, "usable"), "yes");
}

/*
 * A transport is the fact "usable" of a name without a colon; a device's name has its transport's
 * before one.
 */
static const char *transport_at(const struct facts *facts, int i)
{
	const struct fact *f = &facts->fact[i];

	return !strcmp(f->section, "transport") && !strcmp(f->key, "usable") &&
			       !strchr(f->name, ':')
		       ? f->name
		       : NULL;
}

static bool device_at(const struct facts *facts, int i, const char *transport)
{
	const struct fact *f = &facts->fact[i];
	size_t len = strlen(transport);

	return !strcmp(f->section, "transport") && !strcmp(f->key, "usable") &&
	       !strncmp(f->name, transport, len) && f->name[len] == ':';
}

static void print_device(const struct facts *facts, const char *name)
{
	const char *why = value_of(facts, "transport", name, "why"),
		   *detail = value_of(facts, "transport", name, "detail"),
		   *gbps = value_of(facts, "transport", name, "gbps"),
		   *numa = value_of(facts, "transport", name, "numa");

	printf("  %-20s %-7s %s", name, usable(facts, name) ? "yes" : "no", why);
	if (*detail)
		printf("%s%s", *why ? "; " : "", detail);
	if (*gbps)
		printf("; %s Gbit/s", gbps);
	if (*numa)
		printf("; NUMA node %s", numa);
	putchar('\n');
}

static void print_transport(const struct facts *facts, const char *transport)
{
	int i, n = 0;

	for (i = 0; i < facts->n; i++)
		if (device_at(facts, i, transport) && n++ < DEVICES_SHOWN)
			print_device(facts, facts->fact[i].name);
	if (n > DEVICES_SHOWN)
		printf("  %-20s %d more: tutti_info --devices\n", transport, n - DEVICES_SHOWN);
	if (!n)
		print_device(facts, transport);
}

/* Is it in the list, which may have a prefix that wraps transports? Empty: all are. */
static bool allowed(const char *list, const char *transport)
{
	size_t len = strlen(transport);
	const char *at = strchr(list, ':');

	if (!*list)
		return true;
	for (at = at ? at + 1 : list; (at = strstr(at, transport)) != NULL; at += len)
		if ((at == list || strchr(",: ", at[-1])) && (!at[len] || strchr(", ", at[len])))
			return true;
	return false;
}

/* Why a transport is not used. */
static const char *why_not(const struct facts *facts, const char *transport, const char *list)
{
	const char *why = value_of(facts, "transport", transport, "why");
	int i;

	if (!allowed(list, transport))
		return "not in TUTTI_TRANSPORT";
	for (i = 0; !*why && i < facts->n; i++)
		if (device_at(facts, i, transport))
			why = value_of(facts, "transport", facts->fact[i].name, "why");
	return why;
}

/* The first that is usable and allowed, transports being told best first. near: of one host. */
static void print_used(const struct facts *facts, const char *what, bool near)
{
	const char *list = value_of(facts, "variable", "TUTTI_TRANSPORT", "value"), *tp,
		   *used = NULL;
	char not [512] = "", per_peer[64] = "";
	size_t len = 0;
	int i;

	for (i = 0; i < facts->n && !used; i++) {
		tp = transport_at(facts, i);
		if (!tp || !strcmp(tp, "self") || (!near && !strcmp(tp, "shm")))
			continue;
		if (usable(facts, tp) && allowed(list, tp))
			used = tp;
		else if (len < sizeof(not ))
			len += (size_t)snprintf(not +len, sizeof(not ) - len, "; not %s: %s", tp,
						why_not(facts, tp, list));
	}
	if (used)
		snprintf(per_peer, sizeof(per_peer), ", %s per peer",
			 value_of(facts, "transport", used, "per peer"));
	printf("  %-20s %s%s%s\n", what, used ? used : "none", per_peer, not );
}

static void print_set(const struct facts *facts)
{
	const struct fact *f;
	int i, n = 0;

	for (i = 0; i < facts->n; i++) {
		f = &facts->fact[i];
		if (strcmp(f->section, "variable") || strcmp(f->key, "source") ||
		    !strcmp(f->value, "default"))
			continue;
		if (!n++)
			printf("set\n");
		printf("  %-20s %s", f->name, value_of(facts, "variable", f->name, "value"));
		printf(strcmp(f->value, "environment") ? " (%s)\n" : "\n", f->value);
	}
}

void print_summary(const struct facts *facts)
{
	const char *fabric = value_of(facts, "version", "libfabric", "version");
	int i;

	printf("tutti %s%s%s\n", value_of(facts, "version", "tutti", "version"),
	       *fabric ? ", libfabric " : "", fabric);
	printf("host %s: %s usable CPUs, %s of usable memory, registration cache %s\n",
	       value_of(facts, "host", "name", "value"),
	       value_of(facts, "host", "usable CPUs", "value"),
	       value_of(facts, "host", "usable memory", "value"),
	       value_of(facts, "host", "registration cache", "value"));
	printf("transport device       usable  why\n");
	for (i = 0; i < facts->n; i++)
		if (transport_at(facts, i))
			print_transport(facts, transport_at(facts, i));
	printf("used\n");
	print_used(facts, "on one host", true);
	print_used(facts, "between hosts", false);
	print_set(facts);
	printf("More: tutti_info --devices, --config (all variables), --json (everything).\n");
}
