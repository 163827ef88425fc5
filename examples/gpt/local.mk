# SPDX-License-Identifier: BSD-3-Clause
# A small GPT on a grid of ranks; gpt_double is the same in float64.
noinst_PROGRAMS += gpt gpt_double
TT_GPT_PARTS = examples/gpt/gpt.h examples/gpt/math.h examples/gpt/adamw.c \
	examples/gpt/checkpoint.c examples/gpt/downpour.c examples/gpt/gradients.c \
	examples/gpt/grid.c examples/gpt/layer.c examples/gpt/math.c examples/gpt/params.c \
	examples/gpt/stage.c examples/gpt/text.c examples/seconds.c examples/seconds.h
gpt_SOURCES = examples/gpt/gpt.c examples/gpt/gpt_options.c $(TT_ARGUMENTS) \
	$(TT_GPT_PARTS)
gpt_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
gpt_LDADD = libtutti_train.la libtutti.la $(OPENBLAS_LIBS) -lm
gpt_double_SOURCES = $(gpt_SOURCES)
gpt_double_CPPFLAGS = $(gpt_CPPFLAGS) -DGPT_DOUBLE
gpt_double_LDADD = $(gpt_LDADD)
