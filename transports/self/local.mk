# SPDX-License-Identifier: BSD-3-Clause
libtt_la_SOURCES += transports/self/self.c
