/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake that opens every connection of the bootstrap and the control tree.
 *
 * All integers are little-endian. C is the side that connected, S the side that accepted.
 *
 *	C -> S   hello_C	96 bytes
 *	S -> C   hello_S	96 bytes
 *	C -> S   proof_C	56 bytes
 *	S -> C   proof_S	56 bytes	or 56 zero bytes and end of stream: refused
 *	both	 frames, sealed (link.c)
 *
 * hello:
 *	 0  8  "TUTTIctl"
 *	 8  2  protocol version (TT_BOOT_PROTO)
 *	10  1  kind of connection: 1 join (to rank 0's store), 2 tree (child to parent),
 *	       3 look (ras.h), 4 gate (admission.h), 5 watch (peer_watch.c)
 *	11  1  role of the sender: 'C' or 'S'
 *	12  4  rank of the sender
 *	16  4  number of ranks of the job, as the sender knows it
 *	20  4  zero
 *	24 24  version text of the sender's library, NUL padded
 *	48 16  job nonce; zero in hello_C if C has not been told it
 *	64 32  random, fresh for this connection
 *
 * proof:
 *	 0 32  keyed hash, see below
 *	32 24  header of the sender's secretstream
 *
 * K is the job's key: BLAKE2b-256 of the secret's bytes, keyed with "tutti secret" (NUL padded to
 * 32 bytes); or the 32 bytes in a unique id or in a boot directory's file; or zero without a
 * secret, which gives the same code path but no authentication. With H = BLAKE2b-256 keyed with K:
 *
 *	hash in proof of role R:   H("tutti proof\0" R J hello_C hello_S)
 *	key of the stream from R:  H("tutti frame\0" R J hello_C hello_S)
 *
 * where the label has 12 bytes, R is one byte 'C' or 'S', and J is the 16-byte job nonce of
 * hello_S. The hash covers a fresh random of each side, so a recorded proof is useless later
 * (replay). It covers the role, so a proof cannot be sent back to its author (reflection). S proves
 * nothing before C has. Both hellos are covered, so rank, size and versions cannot be changed in
 * transit. The streams are crypto_secretstream_xchacha20poly1305: frames cannot be read, nor
 * changed, dropped, repeated or reordered unnoticed. There is no forward secrecy: an attacker that
 * learns the secret later can read recorded frames; the control tree carries nothing worth that.
 *
 * Hello and proof keep this layout in every protocol version. A version mismatch is therefore
 * reported to authenticated peers only, and a stranger cannot stop a job by claiming one.
 */
#include "lib/boot/rendezvous/auth.h"

#include <errno.h>
#include <string.h>
#include <tutti/error.h>

#include "lib/boot/rendezvous/pack.h"

static const char magic[8] = {'T', 'U', 'T', 'T', 'I', 'c', 't', 'l'};

void tt_auth_hello(struct tt_auth *auth, const struct tt_self *self, unsigned kind, char role,
		   unsigned char out[TT_HELLO_SIZE])
{
	unsigned char *own = role == 'C' ? auth->hello_c : auth->hello_s;
	char version[TT_AUTH_VERSION_MAX] = "";
	struct tt_pack k = {.p = own, .cap = TT_HELLO_SIZE};
	unsigned char nonce[32];

	memcpy(version, self->version, strnlen(self->version, sizeof(version) - 1));
	randombytes_buf(nonce, sizeof(nonce));
	tt_put(&k, magic, sizeof(magic));
	tt_put_u(&k, TT_BOOT_PROTO, 2);
	tt_put_u(&k, kind, 1);
	tt_put_u(&k, (unsigned char)role, 1);
	tt_put_u(&k, (uint32_t)self->rank, 4);
	tt_put_u(&k, (uint32_t)self->nranks, 4);
	tt_put_u(&k, 0, 4);
	tt_put(&k, version, sizeof(version));
	tt_put(&k, self->job, sizeof(self->job));
	tt_put(&k, nonce, sizeof(nonce));
	memcpy(out, own, TT_HELLO_SIZE);
}

int tt_auth_read_hello(struct tt_auth *auth, const unsigned char in[TT_HELLO_SIZE], char role,
		       struct tt_hello *hello)
{
	struct tt_unpack u = {.p = in, .len = TT_HELLO_SIZE};
	size_t i;

	if (memcmp(tt_get(&u, sizeof(magic)), magic, sizeof(magic)))
		return -EPROTO;
	hello->proto = (unsigned)tt_get_u(&u, 2);
	hello->kind = (unsigned)tt_get_u(&u, 1);
	hello->role = (char)tt_get_u(&u, 1);
	hello->rank = (int)(uint32_t)tt_get_u(&u, 4);
	hello->nranks = (int)(uint32_t)tt_get_u(&u, 4);
	tt_get_u(&u, 4);
	memcpy(hello->version, tt_get(&u, sizeof(hello->version)), sizeof(hello->version));
	hello->version[sizeof(hello->version) - 1] = 0;
	for (i = 0; hello->version[i]; i++)
		if (hello->version[i] < 0x20 || hello->version[i] > 0x7e)
			hello->version[i] = '?';
	memcpy(hello->job, tt_get(&u, sizeof(hello->job)), sizeof(hello->job));
	if (hello->role != role)
		return -EPROTO;
	memcpy(role == 'C' ? auth->hello_c : auth->hello_s, in, TT_HELLO_SIZE);
	return 0;
}

static void keyed_hash(const struct tt_auth *auth, const struct tt_self *self, const char label[12],
		       char role, unsigned char out[32])
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, self->secret, sizeof(self->secret), 32);
	crypto_generichash_update(&st, (const unsigned char *)label, 12);
	crypto_generichash_update(&st, (const unsigned char *)&role, 1);
	crypto_generichash_update(&st, auth->hello_s + 48, 16);
	crypto_generichash_update(&st, auth->hello_c, TT_HELLO_SIZE);
	crypto_generichash_update(&st, auth->hello_s, TT_HELLO_SIZE);
	crypto_generichash_final(&st, out, 32);
	sodium_memzero(&st, sizeof(st));
}

void tt_auth_prove(struct tt_auth *auth, const struct tt_self *self, char role,
		   unsigned char out[TT_PROOF_SIZE])
{
	unsigned char key[32];

	keyed_hash(auth, self, "tutti proof", role, out);
	keyed_hash(auth, self, "tutti frame", role, key);
	crypto_secretstream_xchacha20poly1305_init_push(&auth->push, out + 32, key);
	sodium_memzero(key, sizeof(key));
}

int tt_auth_check(struct tt_auth *auth, const struct tt_self *self, char role,
		  const unsigned char in[TT_PROOF_SIZE])
{
	unsigned char want[32], key[32];

	keyed_hash(auth, self, "tutti proof", role, want);
	if (sodium_memcmp(want, in, sizeof(want)))
		return -TUTTI_EAUTH;
	keyed_hash(auth, self, "tutti frame", role, key);
	crypto_secretstream_xchacha20poly1305_init_pull(&auth->pull, in + 32, key);
	sodium_memzero(key, sizeof(key));
	return 0;
}

void tt_auth_seal(struct tt_auth *auth, const void *data, size_t len, unsigned char *out)
{
	crypto_secretstream_xchacha20poly1305_push(&auth->push, out, NULL, data, len, NULL, 0, 0);
}

int tt_auth_open(struct tt_auth *auth, const unsigned char *in, size_t len, unsigned char *out)
{
	unsigned char tag;

	if (len < TT_SEAL_OVERHEAD || crypto_secretstream_xchacha20poly1305_pull(
					      &auth->pull, out, NULL, &tag, in, len, NULL, 0))
		return -EBADMSG;
	return 0;
}

void tt_auth_derive(const void *secret, size_t len, unsigned char key[32])
{
	unsigned char label[32] = "tutti secret";

	crypto_generichash(key, 32, secret, len, label, sizeof(label));
}
