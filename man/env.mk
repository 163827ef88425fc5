# SPDX-License-Identifier: BSD-3-Clause
# tutti_env(7) is made from the table that the library parses.
noinst_PROGRAMS += man/env_page
man_env_page_SOURCES = man/env_page.c
man_MANS += man/tutti_env.7
CLEANFILES += man/tutti_env.7
man/tutti_env.7: man/env_page$(EXEEXT)
	$(AM_V_GEN)man/env_page$(EXEEXT) >$@.tmp && mv $@.tmp $@
