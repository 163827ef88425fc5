# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += \
	lib/boot/boot.c lib/boot/boot.h lib/boot/control/control.h lib/boot/control/control_loop.c \
	lib/boot/control/control_tree.c lib/boot/control/control_tree.h lib/boot/control/fork.c \
	lib/boot/control/fork.h lib/boot/control/listener.c lib/boot/control/outbox.c \
	lib/boot/control/peer_watch.c lib/boot/control/start_end.c lib/boot/control/ras.c \
	lib/boot/control/ras.h lib/boot/control/reparent.c lib/boot/rendezvous/address.c \
	lib/boot/rendezvous/address.h lib/boot/rendezvous/admission.c \
	lib/boot/rendezvous/admission.h lib/boot/rendezvous/auth.c lib/boot/rendezvous/auth.h \
	lib/boot/rendezvous/bootdir.c lib/boot/rendezvous/bootdir.h lib/boot/rendezvous/discover.c \
	lib/boot/rendezvous/discover.h lib/boot/rendezvous/join.c lib/boot/rendezvous/launcher.c \
	lib/boot/rendezvous/launcher.h lib/boot/rendezvous/launcher_kvs.c \
	lib/boot/rendezvous/launcher_kvs.h lib/boot/rendezvous/launcher_pmi1.c \
	lib/boot/rendezvous/launcher_pmix.c lib/boot/rendezvous/link.c lib/boot/rendezvous/link.h \
	lib/boot/rendezvous/pack.h lib/boot/rendezvous/secret.c lib/boot/rendezvous/secure.h \
	lib/boot/rendezvous/store.c lib/boot/rendezvous/unique_id.c
