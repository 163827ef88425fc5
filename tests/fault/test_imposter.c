/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An imposter accepts a connection of transport ofi at the peer's address, with no data, invalid
 * data, or the data of the request: the active end refuses all of these.
 */
#include <errno.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/ofi_side.h"
#include "transports/ofi/ofi.h"

struct imposter {
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	char addr[OFI_ADDR_MAX];
	size_t addr_len;
};

enum answer { NOTHING, JUNK, REFLECTED, ANSWERS };

static bool imposter_open(struct imposter *im, struct fi_info *info)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};

	*im = (struct imposter){.addr_len = sizeof(im->addr)};
	return !fi_fabric(info->fabric_attr, &im->fabric, NULL) &&
	       !fi_eq_open(im->fabric, &attr, &im->eq, NULL) &&
	       !fi_passive_ep(im->fabric, info, &im->pep, NULL) &&
	       !fi_pep_bind(im->pep, &im->eq->fid, 0) && !fi_listen(im->pep) &&
	       !fi_getname(&im->pep->fid, im->addr, &im->addr_len);
}

static void imposter_close(struct imposter *im)
{
	if (im->ep)
		fi_close(&im->ep->fid);
	if (im->cq)
		fi_close(&im->cq->fid);
	if (im->domain)
		fi_close(&im->domain->fid);
	fi_close(&im->pep->fid);
	fi_close(&im->eq->fid);
	fi_close(&im->fabric->fid);
}

/* Look once whether there is a request, and accept it. */
static bool imposter_accept(struct imposter *im, enum answer answer)
{
	union {
		struct fi_eq_cm_entry cm;
		char room[sizeof(struct fi_eq_cm_entry) + 256];
	} e;
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA};
	unsigned char data[TT_MAC_SIZE];
	uint32_t event;
	bool ok;

	if (fi_eq_read(im->eq, &event, &e, sizeof(e), 0) < (ssize_t)sizeof(e.cm) ||
	    event != FI_CONNREQ)
		return false;
	memset(data, 7, sizeof(data));
	if (answer == REFLECTED)
		memcpy(data, e.cm.data + offsetof(struct ofi_call, mac), sizeof(data));
	ok = !fi_domain(im->fabric, e.cm.info, &im->domain, NULL) &&
	     !fi_cq_open(im->domain, &attr, &im->cq, NULL) &&
	     !fi_endpoint(im->domain, e.cm.info, &im->ep, NULL) &&
	     !fi_ep_bind(im->ep, &im->eq->fid, 0) &&
	     !fi_ep_bind(im->ep, &im->cq->fid, FI_TRANSMIT | FI_RECV) && !fi_enable(im->ep) &&
	     !fi_accept(im->ep, data, answer == NOTHING ? 0 : sizeof(data));
	fi_freeinfo(e.cm.info);
	return ok;
}

/* Accepts once, and then goes on reading events, which carries the connection forward. */
static bool imposter_turn(struct imposter *im, enum answer answer, bool took)
{
	char event[512];
	uint32_t kind;

	if (!took)
		return imposter_accept(im, answer);
	(void)!fi_eq_read(im->eq, &kind, event, sizeof(event), 0);
	return true;
}

static void accepted_by(enum answer answer)
{
	struct card card[2];
	struct ofi_blob blob;
	struct imposter im;
	struct side s[2];
	bool took = false;

	TT_REQUIRE(!side_open(&s[0], &msg_tcp, 0) && !side_open(&s[1], &msg_tcp, 1));
	TT_REQUIRE(!side_ep(&s[0], &card[0]) && !side_ep(&s[1], &card[1]));
	TT_REQUIRE(imposter_open(&im, ((struct ofi_tp *)s[1].tp)->info));
	memcpy(&blob, card[1].blob, sizeof(blob));
	memcpy(blob.addr, im.addr, im.addr_len);
	memcpy(card[1].blob, &blob, sizeof(blob));
	TT_CHECK(!side_connect(&s[0], &card[1], 1));
	TT_CHECK(WAIT_FOR(s[0].down, 5000, pump(&s[0]); took = imposter_turn(&im, answer, took)));
	TT_CHECK(took && !s[0].up && s[0].status == -EACCES);
	imposter_close(&im);
	side_close(&s[0]);
	side_close(&s[1]);
}

static void test_accepted(void)
{
	int a;

	tutti_set_log(NULL, NULL, TUTTI_LOG_NONE);
	for (a = 0; a < ANSWERS; a++)
		accepted_by((enum answer)a);
	tutti_set_log(NULL, NULL, TUTTI_LOG_DEFAULT);
}

int main(int argc, char **argv)
{
	static const struct tt_test tests[] = {{"accepted", test_accepted}, {NULL, NULL}};

	return tt_test_main("imposter", tests, argc, argv);
}
