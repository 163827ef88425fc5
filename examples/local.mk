# SPDX-License-Identifier: BSD-3-Clause
TT_ARGUMENTS = examples/arguments.c examples/arguments.h
include examples/gpt/local.mk
include examples/rl/local.mk

noinst_PROGRAMS += hello halo experts logreg glove
glove_SOURCES = examples/glove.c examples/random.c examples/random.h examples/coded_sum.c \
	examples/coded_sum.h $(TT_ARGUMENTS)
glove_LDADD = libtutti.la -lm
logreg_SOURCES = examples/logreg.c examples/texts.c examples/texts.h examples/random.c \
	examples/random.h examples/coded_sum.c examples/coded_sum.h $(TT_ARGUMENTS)
logreg_LDADD = libtutti.la -lm
halo_SOURCES = examples/halo.c
halo_LDADD = libtutti.la
experts_SOURCES = examples/experts.c examples/random.c examples/random.h
experts_LDADD = libtutti.la -lm
hello_SOURCES = examples/hello.c
hello_LDADD = libtutti.la

# Programs to show what tutti does, which are in no PATH.
demodir = $(pkglibexecdir)
demo_PROGRAMS =

examplesdir = $(docdir)/examples
dist_examples_DATA = examples/hello.c examples/halo.c examples/experts.c \
	examples/logreg.c examples/glove.c examples/ps_digits.c examples/train_digits.c \
	examples/train_elastic.c examples/trainer.c examples/trainer.h \
	examples/train_options.c examples/train_options.h examples/mlp.c examples/mlp.h \
	examples/digits.c examples/digits.h examples/texts.c examples/texts.h \
	examples/random.c examples/random.h examples/seconds.c examples/seconds.h \
	examples/coded_sum.c examples/coded_sum.h $(TT_ARGUMENTS) \
	examples/advise.c examples/advise.h examples/mpi_unique_id.c

if HAVE_ZLIB
demo_PROGRAMS += train_digits
TT_TRAINER = $(TT_ARGUMENTS) examples/trainer.c examples/trainer.h examples/train_options.c \
	examples/train_options.h examples/coded_sum.c examples/coded_sum.h \
	examples/mlp.c examples/mlp.h examples/digits.c examples/digits.h examples/random.c \
	examples/random.h
train_digits_SOURCES = examples/train_digits.c examples/advise.c examples/advise.h $(TT_TRAINER)
train_digits_CPPFLAGS = $(AM_CPPFLAGS) $(ZLIB_CFLAGS) -DPKGDATADIR=\"$(pkgdatadir)\"
train_digits_LDADD = libtutti.la $(ZLIB_LIBS) -lm

noinst_PROGRAMS += ps_digits train_elastic train_decentralized
train_decentralized_SOURCES = examples/train_decentralized.c examples/decentral.c \
	examples/decentral.h examples/partial_steps.c examples/mlp.c examples/mlp.h \
	examples/digits.c examples/digits.h examples/random.c examples/random.h \
	examples/seconds.c examples/seconds.h $(TT_ARGUMENTS)
train_decentralized_CPPFLAGS = $(train_digits_CPPFLAGS)
train_decentralized_LDADD = libtutti_train.la $(train_digits_LDADD)
train_elastic_SOURCES = examples/train_elastic.c $(TT_TRAINER)
train_elastic_CPPFLAGS = $(train_digits_CPPFLAGS)
train_elastic_LDADD = $(train_digits_LDADD)
ps_digits_SOURCES = examples/ps_digits.c examples/mlp.c examples/mlp.h examples/digits.c \
	examples/digits.h examples/random.c examples/random.h examples/seconds.c \
	examples/seconds.h $(TT_ARGUMENTS)
ps_digits_CPPFLAGS = $(AM_CPPFLAGS) $(ZLIB_CFLAGS) -DPKGDATADIR=\"$(pkgdatadir)\"
ps_digits_LDADD = libtutti.la $(ZLIB_LIBS) -lm
endif
