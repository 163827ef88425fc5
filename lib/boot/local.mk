# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/boot/boot.h lib/boot/boot.c lib/boot/secure.h \
	lib/boot/discover.c lib/boot/discover.h lib/boot/launcher.c lib/boot/launcher.h lib/boot/secret.c lib/boot/unique_id.c \
	lib/boot/bootdir.c lib/boot/bootdir.h lib/boot/addr.c lib/boot/addr.h \
	lib/boot/auth.c lib/boot/auth.h lib/boot/link.c lib/boot/link.h lib/boot/pack.h \
	lib/boot/ctl.c lib/boot/ctl.h lib/boot/store.c lib/boot/join.c lib/boot/tree.c lib/boot/tree.h \
	lib/boot/fork.c lib/boot/fork.h lib/boot/gate.c lib/boot/gate.h lib/boot/heal.c lib/boot/watch.c lib/boot/ras.c lib/boot/ras.h
