# SPDX-License-Identifier: BSD-3-Clause
# tutti_env(7) is made from the table that the library parses, by a program of the building machine.
EXTRA_DIST += man/env_page.c
man_MANS += man/tutti_env.7
CLEANFILES += man/tutti_env.7 man/env_page
man/env_page: $(srcdir)/man/env_page.c $(srcdir)/lib/base/env.def
	$(AM_V_GEN)$(MKDIR_P) man && \
	$(CC_FOR_BUILD) -std=gnu11 -I$(srcdir) -o $@ $(srcdir)/man/env_page.c
man/tutti_env.7: man/env_page
	$(AM_V_GEN)man/env_page >$@.tmp && mv $@.tmp $@
