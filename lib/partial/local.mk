# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += lib/partial/partial.h lib/partial/partial_call.c \
	lib/partial/partial_decider.c lib/partial/partial_member.c lib/partial/partial_message.c \
	lib/partial/partial_object.c lib/partial/partial_takeover.c lib/partial/partial_vector.c
