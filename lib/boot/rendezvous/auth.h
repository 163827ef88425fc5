/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutual authentication of two processes of a job, and encryption of the frames; see auth.c. */
#ifndef TT_AUTH_H
#define TT_AUTH_H

#include <sodium.h>
#include <stdint.h>

#define TT_BOOT_PROTO 1
#define TT_HELLO_SIZE 96
#define TT_AUTH_VERSION_MAX 24
#define TT_PROOF_SIZE (32 + crypto_secretstream_xchacha20poly1305_HEADERBYTES) /* 56 */
#define TT_SEAL_OVERHEAD crypto_secretstream_xchacha20poly1305_ABYTES	       /* 17 */

/* This process's part of every handshake, and the key. */
struct tt_self {
	int rank, nranks;
	char version[TT_AUTH_VERSION_MAX];
	unsigned char job[16]; /* all zero: not known yet (never at a server) */
	unsigned char secret[32];
};

struct tt_hello {
	unsigned proto, kind;
	char role; /* 'C': the side that connected, 'S': the side that accepted */
	int rank, nranks;
	char version[TT_AUTH_VERSION_MAX];
	unsigned char job[16];
};

/* One handshake and the two ciphers derived from it. */
struct tt_auth {
	unsigned char hello_c[TT_HELLO_SIZE], hello_s[TT_HELLO_SIZE]; /* as sent */
	crypto_secretstream_xchacha20poly1305_state push, pull;
};

/* Writes this side's hello into auth and out. */
void tt_auth_hello(struct tt_auth *auth, const struct tt_self *self, unsigned kind, char role,
		   unsigned char out[TT_HELLO_SIZE]);
/* Reads the peer's hello. -EPROTO: not a hello of role. */
int tt_auth_read_hello(struct tt_auth *auth, const unsigned char in[TT_HELLO_SIZE], char role,
		       struct tt_hello *hello);
/* After both hellos: this side's proof and cipher header. */
void tt_auth_prove(struct tt_auth *auth, const struct tt_self *self, char role,
		   unsigned char out[TT_PROOF_SIZE]);
/* Checks the peer's proof, of role. -TUTTI_EAUTH: wrong secret. */
int tt_auth_check(struct tt_auth *auth, const struct tt_self *self, char role,
		  const unsigned char in[TT_PROOF_SIZE]);
/* Seals len bytes into out (len + TT_SEAL_OVERHEAD bytes); open returns -EBADMSG for a forgery. */
void tt_auth_seal(struct tt_auth *auth, const void *data, size_t len, unsigned char *out);
int tt_auth_open(struct tt_auth *auth, const unsigned char *in, size_t len, unsigned char *out);

/* Derives the key from a secret of any length, as in TUTTI_SECRET_FILE. */
void tt_auth_derive(const void *secret, size_t len, unsigned char key[32]);

#endif
