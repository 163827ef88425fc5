# SPDX-License-Identifier: BSD-3-Clause
# The Python package: no part of it is built.
TT_PYTHON_FILES = \
	python/tutti/__init__.py python/tutti/_abi.py python/tutti/_library.py \
	python/tutti/buffers.py python/tutti/codec.py python/tutti/collectives.py \
	python/tutti/communicator.py python/tutti/context.py python/tutti/errors.py \
	python/tutti/gossip.py python/tutti/graph.py python/tutti/grid.py python/tutti/layout.py \
	python/tutti/messages.py python/tutti/ps.py python/tutti/py.typed \
	python/tutti/request.py python/tutti/torch.py python/tutti/train.py python/tutti/window.py
EXTRA_DIST += $(TT_PYTHON_FILES) python/pyproject.toml

if HAVE_PYTHON
tuttipydir = $(pythondir)/tutti
tuttipy_DATA = $(TT_PYTHON_FILES)
endif

# The backend of torch.distributed. PyTorch's headers are not C++ without warnings.
TT_TORCH_FILES = python/torch/group.cc python/torch/operation.cc python/torch/operation.hh \
	python/torch/tensors.cc python/torch/tensors.hh
EXTRA_DIST += $(TT_TORCH_FILES)
if HAVE_TORCH
TT_TORCH_OBJECTS = python/torch/group.o python/torch/operation.o python/torch/tensors.o
TT_TORCH_COMPILE = $(CXX) -c -O1 -fPIC -std=c++17 -DTORCH_EXTENSION_NAME=_torch \
	-I$(top_srcdir)/include $(TORCH_CPPFLAGS)
python/torch/group.o: python/torch/group.cc python/torch/operation.hh python/torch/tensors.hh
	@$(MKDIR_P) python/torch
	$(AM_V_GEN)$(TT_TORCH_COMPILE) -o $@ $(srcdir)/python/torch/group.cc
python/torch/operation.o: python/torch/operation.cc python/torch/operation.hh
	@$(MKDIR_P) python/torch
	$(AM_V_GEN)$(TT_TORCH_COMPILE) -o $@ $(srcdir)/python/torch/operation.cc
python/torch/tensors.o: python/torch/tensors.cc python/torch/tensors.hh
	@$(MKDIR_P) python/torch
	$(AM_V_GEN)$(TT_TORCH_COMPILE) -o $@ $(srcdir)/python/torch/tensors.cc
python/_torch.so: $(TT_TORCH_OBJECTS) libtutti.la
	$(AM_V_GEN)$(CXX) -shared $(LDFLAGS) -o $@ $(TT_TORCH_OBJECTS) \
		-L.libs -ltutti -ltorch -ltorch_cpu -lc10 -ltorch_python
tuttipyexec_DATA = python/_torch.so
tuttipyexecdir = $(pythondir)/tutti
CLEANFILES += python/_torch.so $(TT_TORCH_OBJECTS)
endif

# For tests that need to know which Python the package is for.
.PHONY: print-python
print-python:
	@echo $(PYTHON)
