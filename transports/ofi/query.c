/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_info's facts of libfabric: the chosen provider's devices, and other providers' names. */
#include <stdio.h>
#include <string.h>

#include "transports/ofi/ofi.h"

/* The speed of a network interface, if the provider does not report it; 0: unknown. */
static double interface_gbps(const char *name)
{
	char path[96];
	long mbps = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%ld", &mbps) != 1)
		mbps = 0;
	fclose(f);
	return mbps > 0 ? (double)mbps / 1000 : 0;
}

static void describe(struct tt_tp_device *d, const struct fi_info *info, const char *local_addr)
{
	uint32_t version = info->fabric_attr->prov_version;
	char addr[64] = "";

	memset(d, 0, sizeof(*d));
	ofi_addr_text(info, addr, sizeof(addr));
	snprintf(d->name, sizeof(d->name), "%s;%s", info->fabric_attr->prov_name,
		 info->domain_attr->name);
	snprintf(d->detail, sizeof(d->detail), "%s%sprovider %u.%u, %s endpoints", addr,
		 addr[0] ? ", " : "", FI_MAJOR(version), FI_MINOR(version),
		 info->ep_attr->type == FI_EP_RDM ? "rdm" : "msg");
	d->numa = -1;
	if (info->nic && info->nic->link_attr && info->nic->link_attr->speed)
		d->gbps = (double)info->nic->link_attr->speed / 1e9;
	else
		d->gbps = interface_gbps(info->domain_attr->name);
	if (ofi_lacks(info, d->why, sizeof(d->why)))
		return;
	d->usable = !local_addr || ofi_has_addr(info, local_addr);
	if (!d->usable)
		snprintf(d->why, sizeof(d->why), "not the chosen interface (%s; TUTTI_IF)",
			 local_addr);
	else
		snprintf(d->why, sizeof(d->why), "%s",
			 local_addr ? "serves the chosen interface" : "available");
}

/* Providers offer a device several times, with different attributes. */
static bool listed(const struct fi_info *infos, const struct fi_info *info)
{
	const struct fi_info *i;

	for (i = infos; i != info; i = i->next)
		if (!strcmp(i->domain_attr->name, info->domain_attr->name) &&
		    !strcmp(i->fabric_attr->prov_name, info->fabric_attr->prov_name) &&
		    i->src_addrlen == info->src_addrlen &&
		    !memcmp(i->src_addr, info->src_addr, info->src_addrlen))
			return true;
	return false;
}

static void unusable(struct tt_tp_device *d, const char *name, const char *why)
{
	memset(d, 0, sizeof(*d));
	snprintf(d->name, sizeof(d->name), "%s", name);
	snprintf(d->why, sizeof(d->why), "%s", why);
	d->numa = -1;
}

/*
 * Those of infos that can be used, or the others, from dev[n] on; returns how many there are with
 * the n before.
 */
static int list(const struct fi_info *infos, bool usable, const char *local_addr,
		struct tt_tp_device *dev, int n, int max)
{
	const struct fi_info *i;
	struct tt_tp_device d;

	for (i = infos; i; i = i->next) {
		if (listed(infos, i))
			continue;
		describe(&d, i, local_addr);
		if (d.usable != usable)
			continue;
		if (n < max)
			dev[n] = d;
		n++;
	}
	return n;
}

int ofi_query(const struct tt_tp_params *params, struct tt_tp_device *dev, int max)
{
	const struct tt_env *env = params->env;
	struct fi_info *infos = NULL;
	char why[160], text[100];
	int rc, n;

	if (max < 1)
		return 0;
	rc = ofi_load();
	if (rc) {
		unusable(dev, env->ofi_provider.text, tt_fail_text(rc));
		return 1;
	}
	if (ofi_refuse(env, why, sizeof(why))) {
		unusable(dev, env->ofi_provider.text, why);
		return 1;
	}
	rc = ofi_find(env, NULL, &infos);
	if (rc) {
		ofi_why_none(env, rc, text, sizeof(text));
		snprintf(why, sizeof(why), "libfabric has no such provider with %s endpoints: %s",
			 env->ofi_ep.text, text);
		unusable(dev, env->ofi_provider.text, why);
		return 1;
	}
	/* There may be more than there is room for: interfaces of containers. */
	n = list(infos, true, params->local_addr, dev, 0, max);
	n = list(infos, false, params->local_addr, dev, n, max);
	fi_freeinfo(infos);
	return n;
}
