# SPDX-License-Identifier: BSD-3-Clause
# libtutti_train: what training loops need around libtutti, over its public headers only. Tests link
# libtt_train.la beside their copy of libtutti.
tuttiinclude_HEADERS += include/tutti/train.h include/tutti/pipeline.h
lib_LTLIBRARIES += libtutti_train.la
noinst_LTLIBRARIES += libtt_train.la
libtt_train_la_SOURCES = train/train_fail.c train/train_fail.h train/pipeline_run.c \
	train/pipeline_tables.c train/pipeline_tables.h

tuttiinclude_HEADERS += include/tutti/reducer.h include/tutti/local_steps.h \
	include/tutti/sharded.h
libtt_train_la_SOURCES += train/buckets.c train/buckets.h \
	train/sharded_state.h train/sharded_setup.c train/sharded_reduce.c train/sharded_step.c \
	train/sharded_codec.c train/sharded_save.c train/state_file.c train/state_file.h \
	train/local_steps.c \
	train/local_steps_setup.c train/local_steps_state.h \
	train/reducer.c train/reducer_missing.c train/reducer_parts.c train/reducer_setup.c \
	train/reducer_state.h

libtutti_train_la_SOURCES =
libtutti_train_la_LIBADD = libtt_train.la libtutti.la $(JANSSON_LIBS) $(XXHASH_LIBS) -lpthread -lm
libtutti_train_la_LDFLAGS = -version-info 0:0:0 \
	-Wl,--version-script=$(top_srcdir)/libtutti_train.map \
	-Wl,-Bsymbolic-functions $(TT_NO_UNDEFINED)
EXTRA_libtutti_train_la_DEPENDENCIES = libtutti_train.map
