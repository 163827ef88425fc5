/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_describe: version, transports and their devices, this host, codecs, every variable. */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/info.h>
#include <unistd.h>

#include "lib/base/env.h"
#include "lib/boot/boot.h"
#include "lib/codec/codec.h"
#include "lib/mem/watch.h"
#include "lib/topo/topo.h"
#include "lib/wire/wire.h"

#define MAX_DEVICES 64

struct teller {
	tutti_describe_fn *fn;
	void *arg;
};

static void tell(const struct teller *t, const char *section, const char *name, const char *key,
		 const char *fmt, ...) TT_PRINTF(5, 6);

static void tell(const struct teller *t, const char *section, const char *name, const char *key,
		 const char *fmt, ...)
{
	char value[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	t->fn(section, name, key, value, t->arg);
}

static void tell_version(const struct teller *t)
{
	unsigned major, minor;
	const char *name;
	int i;

	tell(t, "version", "tutti", "version", "%s", tutti_version());
	for (i = 0; tt_transports[i]; i++)
		if (tt_transports[i]->library && !tt_transports[i]->library(&name, &major, &minor))
			tell(t, "version", name, "version", "%u.%u", major, minor);
}

/* Device i of a transport; devices with the same name also get a number. */
static void tell_device(const struct teller *t, const char *tp, const struct tt_tp_device *dev,
			int i)
{
	const struct tt_tp_device *d = &dev[i];
	int same = 1, j;
	char name[128];

	for (j = 0; j < i; j++)
		same += !strcmp(dev[j].name, d->name);
	if (same == 1)
		snprintf(name, sizeof(name), "%s:%s", tp, d->name);
	else
		snprintf(name, sizeof(name), "%s:%s#%d", tp, d->name, same);
	tell(t, "transport", name, "usable", "%s", d->usable ? "yes" : "no");
	if (d->why[0])
		tell(t, "transport", name, "why", "%s", d->why);
	if (d->detail[0])
		tell(t, "transport", name, "detail", "%s", d->detail);
	if (d->gbps > 0)
		tell(t, "transport", name, "gbps", "%g", d->gbps);
	if (d->numa >= 0)
		tell(t, "transport", name, "numa", "%d", d->numa);
}

static void tell_transport(const struct teller *t, const struct tt_tp_ops *tp,
			   const struct tt_tp_params *params)
{
	struct tt_tp_device *dev = calloc(MAX_DEVICES, sizeof(*dev));
	int n = dev ? tp->query(params, dev, MAX_DEVICES) : -ENOMEM, i, usable = 0;

	n = n > MAX_DEVICES ? MAX_DEVICES : n;
	for (i = 0; i < n; i++)
		usable += dev[i].usable;
	tell(t, "transport", tp->name, "usable", "%s", usable ? "yes" : "no");
	if (n < 0)
		tell(t, "transport", tp->name, "why", "%s", tt_fail_text(n));
	else if (!n)
		tell(t, "transport", tp->name, "why", "no device");
	if (tp->peer_bytes)
		tell(t, "transport", tp->name, "per peer", "%zu bytes",
		     tt_wire_peer_bytes(params->env, tp));
	for (i = 0; i < n; i++)
		tell_device(t, tp->name, dev, i);
	free(dev);
}

/*
 * The address given by TUTTI_IF; without it every device may serve, as there is no job to choose.
 */
static int chosen_addr(const struct tt_env *env, char *addr, size_t size)
{
	struct tt_boot_params boot = {.listen_fd = -1, .store = "127.0.0.1:0"};

	snprintf(boot.iface, sizeof(boot.iface), "%s", env->iface.text);
	return tt_boot_local_addr(&boot, addr, size);
}

static void tell_transports(const struct teller *t)
{
	struct tt_tp_params params = {.rank = 0};
	struct tt_env env;
	char addr[64];
	int i, err, env_err = tt_env_load(&env);

	err = env_err;
	if (!err && env.iface.is_set) {
		err = chosen_addr(&env, addr, sizeof(addr));
		params.local_addr = addr;
	}
	params.env = &env;
	for (i = 0; tt_transports[i]; i++)
		if (!err) {
			tell_transport(t, tt_transports[i], &params);
		} else {
			tell(t, "transport", tt_transports[i]->name, "usable", "no");
			tell(t, "transport", tt_transports[i]->name, "why", "%s",
			     tt_fail_text(err));
		}
	if (!env_err)
		tt_env_free(&env);
}

static void tell_host(const struct teller *t)
{
	char name[256] = "";
	struct tt_watch *watch;
	struct tt_host host;
	int err;

	gethostname(name, sizeof(name) - 1);
	tell(t, "host", "name", "value", "%s", name);
	tell(t, "host", "same host", "value", "%s",
	     "equal boot id, network and process namespace, confirmed by mapping a probe; equal "
	     "TUTTI_HOST_ID overrides all");
	if (tt_host_get(getenv("TUTTI_HOST_ID"), &host)) {
		tell(t, "host", "TUTTI_HOST_ID", "value", "unusable: it is too long");
		tt_host_get(NULL, &host);
	} else {
		tell(t, "host", "TUTTI_HOST_ID", "value", "%s",
		     host.override[0] ? host.override : "unset");
	}
	tell(t, "host", "boot id", "value", "%s", host.boot_id[0] ? host.boot_id : "unknown");
	tell(t, "host", "network namespace", "value", "%llu",
	     (unsigned long long)(uint32_t)host.netns);
	err = tt_watch_new(&watch);
	tell(t, "host", "registration cache", "value", "%s", err ? tt_fail_text(err) : "possible");
	if (!err)
		tt_watch_free(watch);
	tell(t, "host", "usable CPUs", "value", "%d", tt_topo_cpus());
	tell(t, "host", "usable memory", "value", "%llu MiB",
	     (unsigned long long)(tt_topo_memory() >> 20));
}

static const char *kind_name(enum tt_env_kind kind)
{
	switch (kind) {
	case TT_ENV_text:
		return "text";
	case TT_ENV_flag:
		return "flag";
	case TT_ENV_count:
		return "number";
	case TT_ENV_size:
		return "size";
	case TT_ENV_time:
		return "time";
	case TT_ENV_choice:
		return "choice";
	}
	return "";
}

static void tell_range(const struct teller *t, const struct tt_env_desc *d)
{
	const char *unit = d->kind == TT_ENV_time ? " ms" : d->kind == TT_ENV_size ? " bytes" : "";

	if (d->kind == TT_ENV_choice)
		tell(t, "variable", d->name, "range", "%s", d->choices);
	else if (d->kind != TT_ENV_text)
		tell(t, "variable", d->name, "range", "%lld to %lld%s", (long long)d->lo,
		     (long long)d->hi, unit);
}

static void tell_variable(const struct teller *t, const struct tt_env_desc *d)
{
	const char *text = getenv(d->name);
	bool set = text && *text;
	int64_t number;

	tell(t, "variable", d->name, "kind", "%s", kind_name(d->kind));
	tell(t, "variable", d->name, "default", "%s", d->def);
	tell_range(t, d);
	tell(t, "variable", d->name, "value", "%s", set ? text : d->def);
	tell(t, "variable", d->name, "source", "%s",
	     !set			      ? "default"
	     : tt_env_parse(d, text, &number) ? "environment, malformed or out of range"
					      : "environment");
	tell(t, "variable", d->name, "help", "%s", d->help);
}

static void tell_codec(const char *form, const char *about, void *arg)
{
	tell(arg, "codec", form, "about", "%s", about);
}

int tutti_describe(tutti_describe_fn *fn, void *arg)
{
	struct teller t = {fn, arg};
	int i;

	if (!fn)
		return tt_fail(-EINVAL, "tutti_describe needs a function to report to, not NULL");
	tell_version(&t);
	tell_transports(&t);
	tell_host(&t);
	tt_codec_each(tell_codec, &t);
	for (i = 0; i < tt_env_count; i++)
		tell_variable(&t, &tt_env_table[i]);
	return 0;
}
