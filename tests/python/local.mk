# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += tests/python/python.sh tests/python/torch.sh
TESTS += tests/python/python.sh tests/python/torch.sh
EXTRA_DIST += tests/python/conftest.py tests/python/test_abi.py tests/python/test_buffers.py \
	tests/python/test_calls.py tests/python/test_codec.py tests/python/test_collectives.py \
	tests/python/test_communicators.py tests/python/test_gossip.py \
	tests/python/test_graphs.py tests/python/test_integers.py tests/python/test_layouts.py \
	tests/python/test_messages.py tests/python/test_misuse.py tests/python/test_ps.py \
	tests/python/test_starts.py tests/python/test_train.py tests/python/test_windows.py \
	tests/python/torch_cases.py tests/python/tutorial.py
