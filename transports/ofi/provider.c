/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions about a provider from its name, its attributes and the environment alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/ofi/ofi.h"

static bool is_provider(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

/*
 * Variables of libfabric that must be 0, because the default is not safe and no call changes it:
 * a cache of registrations leaves memory open to peers that the user has deregistered, and provider
 * shm, which efa uses within a host, checks no bounds. tutti_run sets them for its ranks.
 */
static const struct setting {
	const char *provider, *variable;
} settings[] = {
	{"verbs", "FI_MR_CACHE_MAX_COUNT"},
	{"efa", "FI_EFA_MR_CACHE_ENABLE"},
	{"efa", "FI_EFA_ENABLE_SHM_TRANSFER"},
};

static const char *missing_setting(const char *prov)
{
	const char *value;
	unsigned i;

	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		value = getenv(settings[i].variable);
		if (is_provider(prov, settings[i].provider) && (!value || strcmp(value, "0")))
			return settings[i].variable;
	}
	return NULL;
}

int ofi_refuse(const struct tt_env *env, char *why, size_t size)
{
	const char *prov = env->ofi_provider.text, *variable = missing_setting(prov);

	if (is_provider(prov, "shm"))
		return snprintf(why, size,
				"libfabric's shm does not check keys and bounds; tutti's own shm "
				"transport serves one host");
	if (strstr(prov, "ofi_rxd"))
		return snprintf(why, size, "libfabric's ofi_rxd hangs when a peer is lost");
	if (variable)
		return snprintf(
			why, size,
			"%s must be 0 in the environment (tutti_run sets it), or deregistered "
			"memory stays open to peers",
			variable);
	return 0;
}

bool ofi_lacks(const struct fi_info *info, char *why, size_t size)
{
	const char *lacks = NULL;

	if (info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		lacks = "it registers memory with an endpoint (FI_MR_ENDPOINT), not with the "
			"domain";
	else if (info->domain_attr->mr_mode & FI_MR_RMA_EVENT)
		lacks = "it asks for regions that are enabled for events (FI_MR_RMA_EVENT)";
	else if (!(info->caps & FI_RMA))
		lacks = "it has no remote reads and writes (FI_RMA)";
	else if (is_provider(info->fabric_attr->prov_name, "cxi"))
		lacks = "its writes carry no data for the target's completion queue (fi_writedata)";
	else if (info->domain_attr->cq_data_size < 4)
		lacks = "its writes carry less than 4 bytes for the target's completion queue";
	if (lacks && size)
		snprintf(why, size, "%s", lacks);
	return lacks;
}

bool ofi_moves_alone(const struct fi_info *info)
{
	/*
	 * tcp (also under ofi_rxm) says automatic, but nothing moves between its process's calls.
	 * fi_efa(7) of 1.17 says the same of efa.
	 */
	static const char *const no[] = {"tcp", "net", "efa"};
	unsigned i;

	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (is_provider(info->fabric_attr->prov_name, no[i]))
			return false;
	return info->domain_attr->data_progress == FI_PROGRESS_AUTO;
}
