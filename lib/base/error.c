/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts and the per-thread record of the last failure. */
#include "lib/base/error.h"

#include <tutti/extend.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct tutti_error_info last;

const struct tt_sized tt_error_info_sized = TT_SIZED("info", tutti_error_info, code);

const char *tutti_strerror(int err)
{
	static _Thread_local char buf[64];

	switch (err < 0 ? -err : err) {
	case 0:
		return "Success";
	case ETIMEDOUT: /* of an operation; libc's text names a connection */
		return "The operation timed out";
	case TUTTI_EPEER:
		return "A rank of the job died or became unreachable";
	case TUTTI_EMISMATCH:
		return "Ranks called different collectives, or with different arguments";
	case TUTTI_EABORTED:
		return "The communicator or the job was aborted";
	case TUTTI_EAUTH:
		return "A peer could not prove that it belongs to this job";
	case TUTTI_EVERSION:
		return "Ranks run incompatible versions of the library";
	case TUTTI_ETRANSPORT:
		return "No usable transport, or a transport failed";
	case TUTTI_EBOOT:
		return "The ranks could not find each other at start";
	case TUTTI_EREVOKED:
		return "The communicator was revoked";
	}
	return strerror_r(err < 0 ? -err : err, buf, sizeof(buf));
}

const char *tutti_version(void)
{
	return TUTTI_VERSION_STRING;
}

int tutti_version_num(void)
{
	return TUTTI_VERSION_NUM;
}

static int record(int code, int rank, const char *host, const char *fmt, va_list ap)
{
	char text[sizeof(last.text)]; /* the arguments may point into last */
	size_t len;
	char *c;

	vsnprintf(text, sizeof(text), fmt, ap);
	len = strlen(text);
	for (c = text; *c; c++) /* a name that the caller gave may have them */
		if ((unsigned char)*c < ' ')
			*c = '?';
	if (code == -EMFILE && strstr(text, tutti_strerror(code)) && !strstr(text, "ulimit -n"))
		snprintf(text + len, sizeof(text) - len, "; raise 'ulimit -n'");
	memset(&last, 0, sizeof(last));
	last.size = sizeof(last);
	last.code = code;
	last.rank = rank;
	if (host)
		snprintf(last.host, sizeof(last.host), "%s", host);
	memcpy(last.text, text, sizeof(text));
	return code;
}

int tt_fail(int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	record(code, -1, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int tt_fail_rank(int code, int rank, const char *host, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	record(code, rank, host, fmt, ap);
	va_end(ap);
	return code;
}

int tt_fail_info(const struct tutti_error_info *info)
{
	last = *info;
	last.size = sizeof(last);
	return last.code;
}

const char *tt_fail_text(int code)
{
	if (last.code == code && last.text[0])
		return last.text;
	return tutti_strerror(code == -TT_EFAULT_HERE ? -EFAULT : code);
}

/* Without a text where info is wrong, which would replace the error asked for. */
int tutti_last_error(struct tutti_error_info *info)
{
	if (!info || !tt_sized_fits(&tt_error_info_sized, info))
		return -EINVAL;
	if (!last.code)
		return -ENOENT;
	tt_sized_store(&tt_error_info_sized, info, &last);
	return 0;
}

int tutti_set_last_error(int code, const char *text)
{
	if (code >= 0)
		return tt_fail(-EINVAL,
			       "tutti_set_last_error: code is %d; pass a negative error code",
			       code);
	if (!text)
		return tt_fail(-EINVAL, "tutti_set_last_error: text is NULL");
	return tt_fail(code, "%s", text);
}
