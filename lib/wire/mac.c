/* SPDX-License-Identifier: BSD-3-Clause */
/* The MAC with which transports authenticate their own connection requests. */
#include <sodium.h>
#include <string.h>

#include "lib/wire/transport.h"

void tt_mac(unsigned char mac[TT_MAC_SIZE], const char *label, const struct tt_mac_key *key,
	    const void *data, size_t len)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, (const unsigned char *)key, sizeof(*key), TT_MAC_SIZE);
	crypto_generichash_update(&st, (const unsigned char *)label, strlen(label) + 1);
	crypto_generichash_update(&st, data, len);
	crypto_generichash_final(&st, mac, TT_MAC_SIZE);
	sodium_memzero(&st, sizeof(st));
}

bool tt_mac_is(const unsigned char mac[TT_MAC_SIZE], const char *label,
	       const struct tt_mac_key *key, const void *data, size_t len)
{
	unsigned char want[TT_MAC_SIZE];

	tt_mac(want, label, key, data, len);
	return !sodium_memcmp(want, mac, sizeof(want));
}
