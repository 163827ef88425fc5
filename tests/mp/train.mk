# SPDX-License-Identifier: BSD-3-Clause
# Tests of libtutti_train.
TT_TRAIN_TESTS = tests/mp/train/test_local_steps tests/mp/train/test_sharded \
	tests/mp/train/test_sharded_codec tests/mp/train/test_sharded_file \
	tests/mp/train/test_sharded_errors
TT_TRAIN_TESTS += tests/mp/train/test_train tests/mp/train/test_pipeline
TT_TRAIN_TESTS += tests/mp/train/test_reducer tests/mp/train/test_reducer_codec
TT_TRAIN_TESTS += tests/mp/train/test_freed
TT_TRAIN_TESTS += tests/mp/train/test_gpt_gradient
TT_TRAIN_TESTS += tests/mp/train/test_rl
check_PROGRAMS += $(TT_TRAIN_TESTS)
TESTS += $(TT_TRAIN_TESTS)
tests_mp_train_test_sharded_SOURCES = tests/mp/train/test_sharded.c tests/mp/train/model.h \
	tests/mp/train/sharded_model.h
tests_mp_train_test_sharded_LDADD = libtt_train.la libttmp.la $(JANSSON_LIBS) -lm
tests_mp_train_test_sharded_errors_SOURCES = tests/mp/train/test_sharded_errors.c \
	tests/mp/train/model.h tests/mp/train/sharded_model.h
tests_mp_train_test_sharded_errors_LDADD = libtt_train.la libttmp.la $(JANSSON_LIBS) -lm
tests_mp_train_test_sharded_codec_SOURCES = tests/mp/train/test_sharded_codec.c \
	tests/mp/train/model.h
tests_mp_train_test_sharded_codec_LDADD = libtt_train.la libttmp.la $(JANSSON_LIBS) -lm
tests_mp_train_test_sharded_file_SOURCES = tests/mp/train/test_sharded_file.c \
	tests/mp/train/model.h
tests_mp_train_test_sharded_file_LDADD = libtt_train.la libttmp.la $(JANSSON_LIBS) -lm
tests_mp_train_test_freed_SOURCES = tests/mp/train/test_freed.c
tests_mp_train_test_freed_LDADD = libtt_train.la libttmp.la
tests_mp_train_test_train_SOURCES = tests/mp/train/test_train.c
tests_mp_train_test_train_LDADD = libtt_train.la libttmp.la -lm
tests_mp_train_test_pipeline_SOURCES = tests/mp/train/test_pipeline.c
tests_mp_train_test_pipeline_LDADD = libtt_train.la libttmp.la
tests_mp_train_test_reducer_SOURCES = tests/mp/train/test_reducer.c tests/mp/train/reducer.h \
	tests/mp/train/model.h
tests_mp_train_test_reducer_LDADD = libtt_train.la libttmp.la -lm
tests_mp_train_test_reducer_codec_SOURCES = tests/mp/train/test_reducer_codec.c \
	tests/mp/train/reducer.h tests/mp/train/model.h
tests_mp_train_test_reducer_codec_LDADD = libtt_train.la libttmp.la -lm
tests_mp_train_test_gpt_gradient_SOURCES = tests/mp/train/test_gpt_gradient.c $(TT_GPT_PARTS)
tests_mp_train_test_gpt_gradient_CPPFLAGS = $(gpt_double_CPPFLAGS)
tests_mp_train_test_gpt_gradient_LDADD = libtt_train.la libttmp.la $(OPENBLAS_LIBS) -lm
tests_mp_train_test_rl_SOURCES = tests/mp/train/test_rl.c $(TT_RL_PARTS)
tests_mp_train_test_rl_LDADD = libttmp.la -lm
tests_mp_train_test_local_steps_SOURCES = tests/mp/train/test_local_steps.c tests/mp/train/model.h
tests_mp_train_test_local_steps_LDADD = libtt_train.la libttmp.la -lm
