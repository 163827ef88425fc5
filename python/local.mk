# SPDX-License-Identifier: BSD-3-Clause
# The Python package: no part of it is built.
TT_PYTHON_FILES = \
	python/tutti/__init__.py python/tutti/_abi.py python/tutti/_library.py \
	python/tutti/buffers.py python/tutti/codec.py python/tutti/collectives.py \
	python/tutti/communicator.py python/tutti/context.py python/tutti/errors.py \
	python/tutti/messages.py python/tutti/ps.py python/tutti/py.typed \
	python/tutti/request.py python/tutti/window.py
EXTRA_DIST += $(TT_PYTHON_FILES) python/pyproject.toml

if HAVE_PYTHON
tuttipydir = $(pythondir)/tutti
tuttipy_DATA = $(TT_PYTHON_FILES)
endif

# For tests that need to know which Python the package is for.
.PHONY: print-python
print-python:
	@echo $(PYTHON)
