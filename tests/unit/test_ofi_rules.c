/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions of transport ofi about providers, with simulated providers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/env.h"
#include "tests/test.h"
#include "transports/ofi/ofi.h"

struct provider {
	struct fi_info info;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	char name[32];
};

/* A provider that meets all requirements. */
static struct provider *provider(struct provider *p, const char *name)
{
	*p = (struct provider){.info = {.caps = FI_MSG | FI_RMA}};
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->fabric.prov_name = p->name;
	p->domain.cq_data_size = 4;
	p->domain.mr_mode = FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
	p->domain.data_progress = FI_PROGRESS_AUTO;
	p->info.domain_attr = &p->domain;
	p->info.fabric_attr = &p->fabric;
	return p;
}

static bool lacks(const struct provider *p, const char *word)
{
	char why[160] = "";

	return ofi_lacks(&p->info, why, sizeof(why)) && strstr(why, word);
}

static void what_they_lack(void)
{
	struct provider p;

	TT_CHECK(!ofi_lacks(&provider(&p, "efa")->info, NULL, 0));
	TT_CHECK(!ofi_lacks(&provider(&p, "verbs;ofi_rxm")->info, NULL, 0));
	provider(&p, "cxi")->domain.mr_mode |= FI_MR_ENDPOINT;
	TT_CHECK(lacks(&p, "FI_MR_ENDPOINT"));
	TT_CHECK(lacks(provider(&p, "cxi"), "fi_writedata"));
	provider(&p, "gni")->domain.mr_mode |= FI_MR_RMA_EVENT;
	TT_CHECK(lacks(&p, "FI_MR_RMA_EVENT"));
	provider(&p, "udp")->info.caps = FI_MSG;
	TT_CHECK(lacks(&p, "FI_RMA"));
	provider(&p, "opx")->domain.cq_data_size = 0;
	TT_CHECK(lacks(&p, "less than 4 bytes"));
}

static void progress(void)
{
	static const char *const no[] = {"tcp", "tcp;ofi_rxm", "net", "efa"};
	static const char *const yes[] = {"verbs", "verbs;ofi_rxm", "sockets", "psm3"};
	struct provider p;
	unsigned i;

	for (i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		TT_CHECK(!ofi_moves_alone(&provider(&p, no[i])->info));
	for (i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		TT_CHECK(ofi_moves_alone(&provider(&p, yes[i])->info));
	provider(&p, "psm3")->domain.data_progress = FI_PROGRESS_MANUAL;
	TT_CHECK(!ofi_moves_alone(&p.info));
}

static bool refused(const char *name, const char *word)
{
	char why[160] = "";
	struct tt_env env = {0};
	bool ok;

	setenv("TUTTI_OFI_PROVIDER", name, 1);
	TT_CHECK(!tt_env_load(&env));
	ok = ofi_refuse(&env, why, sizeof(why)) ? word && strstr(why, word) : !word;
	if (!ok)
		printf("# %s: %s\n", name, why);
	tt_env_free(&env);
	unsetenv("TUTTI_OFI_PROVIDER");
	return ok;
}

/* The library changes nothing in the environment of its process. */
static void settings(void)
{
	unsetenv("FI_MR_CACHE_MAX_COUNT");
	unsetenv("FI_EFA_MR_CACHE_ENABLE");
	unsetenv("FI_EFA_ENABLE_SHM_TRANSFER");
	TT_CHECK(refused("tcp", NULL) && refused("sockets", NULL));
	TT_CHECK(refused("shm", "bounds") && refused("udp;ofi_rxd", "lost"));
	TT_CHECK(refused("verbs", "FI_MR_CACHE_MAX_COUNT") &&
		 refused("verbs;ofi_rxm", "FI_MR_CACHE_MAX_COUNT"));
	TT_CHECK(refused("efa", "FI_EFA_MR_CACHE_ENABLE"));
	TT_CHECK(!getenv("FI_MR_CACHE_MAX_COUNT"));
	setenv("FI_MR_CACHE_MAX_COUNT", "100", 1);
	TT_CHECK(refused("verbs", "FI_MR_CACHE_MAX_COUNT"));
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	TT_CHECK(refused("verbs", NULL));
	setenv("FI_EFA_MR_CACHE_ENABLE", "0", 1);
	TT_CHECK(refused("efa", "FI_EFA_ENABLE_SHM_TRANSFER"));
	setenv("FI_EFA_ENABLE_SHM_TRANSFER", "0", 1);
	TT_CHECK(refused("efa", NULL));
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"what_they_lack", what_they_lack},
					       {"progress", progress},
					       {"settings", settings},
					       {NULL, NULL}};

	return tt_test_main("ofi_rules", tests, argc, argv);
}
