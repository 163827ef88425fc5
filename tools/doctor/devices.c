/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries, transports and RDMA devices of this node, from tutti_describe(3). */
#include "tools/doctor/doctor.h"

#include <string.h>
#include <tutti/info.h>

struct seen {
	struct findings *f;
	char versions[200];
	bool between;  /* a transport that reaches other hosts is usable */
	bool usable;   /* the device at hand */
	bool settings; /* a variable is wrong, and nothing was looked at */
	char shm[200];
};

/* Cures of unusable devices, by a text of the reason. */
static const struct {
	const char *text, *mend;
} cures[] = {
	{"install package", "apt-get install the package that is named"},
	{"locked memory", "ulimit -l unlimited"},
	{"its link is", "ibstat; connect the port, start a subnet manager (InfiniBand: opensm)"},
	{"no LID", "start a subnet manager: opensm"},
	{"TUTTI_VERBS_GID", "unset TUTTI_VERBS_GID, or set it to an index of ibv_devinfo -v"},
	{"no GID", "ip addr add ADDRESS/24 dev NAME: RoCE's GIDs are made of addresses"},
	{"Permission denied", "give the user rights to /dev/infiniband/*"},
	{"", "tutti_info --devices"},
};

static const char *cure(const char *why)
{
	int i = 0;

	while (!strstr(why, cures[i].text))
		i++;
	return cures[i].mend;
}

static void device_why(struct seen *s, const char *name, const char *why)
{
	bool verbs = !strncmp(name, "verbs:", 6), ofi = !strncmp(name, "ofi:", 4);

	if (!s->usable && !strcmp(name, "self")) {
		s->settings = true;
		found(s->f, "settings", LEVEL_FAIL, "no job starts", "tutti_info --config", "%s",
		      why);
	}
	if (s->usable || !(verbs || ofi)) {
		if (s->usable && (verbs || ofi)) {
			s->between = true;
			found_ok(s->f, "device", "%s: %s", name, why);
		}
		return;
	}
	if (strstr(why, "cannot load a library"))
		found(s->f, "library", LEVEL_WARN, "the transport is left out", cure(why), "%s: %s",
		      name, why);
	else if (verbs && strstr(why, "no RDMA device"))
		found_ok(s->f, "device", "no RDMA device: TCP between hosts");
	else
		found(s->f, "device", LEVEL_WARN,
		      "the device is left out, and jobs use a slower one", cure(why), "%s: %s",
		      name, why);
}

static void see(const char *section, const char *name, const char *key, const char *value,
		void *arg)
{
	struct seen *s = arg;
	size_t len = strlen(s->versions);

	if (!strcmp(section, "version"))
		snprintf(s->versions + len, sizeof(s->versions) - len, "%s%s %s", len ? ", " : "",
			 name, value);
	if (strcmp(section, "transport"))
		return;
	if (!strcmp(key, "usable"))
		s->usable = !strcmp(value, "yes");
	else if (!strcmp(key, "why"))
		device_why(s, name, value);
	else if (!strcmp(key, "detail") && !strncmp(name, "shm:", 4))
		snprintf(s->shm, sizeof(s->shm), "%s", value);
}

void check_devices(struct findings *f)
{
	struct seen s = {.f = f};
	int err = tutti_describe(see, &s);

	if (err) {
		found(f, "settings", LEVEL_FAIL, "no job starts", "tutti_info --config", "%s",
		      tutti_strerror(err));
		return;
	}
	found_ok(f, "versions", "%s", s.versions);
	if (s.settings)
		return;
	if (!s.between)
		found(f, "transport", LEVEL_WARN, "jobs of this node only",
		      "apt-get install libfabric1 libibverbs1", "no transport reaches other hosts");
	if (strstr(s.shm, "process_vm"))
		found_ok(f, "peers", "%s", s.shm);
	else
		found(f, "peers", LEVEL_WARN,
		      "vectors in ordinary memory are copied twice, and windows in it are refused",
		      "sysctl kernel.yama.ptrace_scope=0; containers: --cap-add SYS_PTRACE",
		      "ranks cannot read each other's memory: %s", s.shm);
}
