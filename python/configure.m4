# SPDX-License-Identifier: BSD-3-Clause
dnl The Python package. It needs nothing at build time: it loads libtutti.so through ctypes.
dnl python3 of PATH may be without NumPy where the system's own has it.
AC_ARG_WITH([python], [AS_HELP_STRING([--without-python], [do not install the Python package])],
	[], [with_python=auto])
AC_ARG_VAR([PYTHON], [Python interpreter to install the package for and to test it with])
tt_python=no
tt_python_note="no python3"
AS_IF([test "x$with_python" = xno], [tt_python_note="--without-python"], [
	AS_IF([test "x$PYTHON" = x], [
		for tt_try in python3 /usr/bin/python3; do
			AS_IF([$tt_try -c 'import sys, numpy; sys.exit(sys.version_info < (3, 9))' \
				>/dev/null 2>&1], [PYTHON=`command -v $tt_try`; break])
		done
	])
	AM_PATH_PYTHON([3.9], [tt_python=yes], [PYTHON=])
	AS_IF([test $tt_python = yes], [
		tt_python_note="yes, for $PYTHON"
		AS_IF([! "$PYTHON" -c 'import numpy' >/dev/null 2>&1],
			[tt_python_note="$tt_python_note (without NumPy)"])
	], [test "x$with_python" = xauto ||
		AC_MSG_ERROR([--with-python: no Python 3.9 or later was found; set PYTHON])])
])
AM_CONDITIONAL([HAVE_PYTHON], [test $tt_python = yes])

dnl The backend of torch.distributed: C++ over PyTorch's headers.
AC_ARG_WITH([torch], [AS_HELP_STRING([--without-torch], [do not build the backend of PyTorch])],
	[], [with_torch=auto])
AC_ARG_VAR([TORCH_CPPFLAGS], [preprocessor flags for PyTorch's headers])
tt_torch=no
tt_torch_note="no python"
AS_IF([test "x$with_torch" = xno], [tt_torch_note="--without-torch"],
	[test "x$cross_compiling" = xyes], [tt_torch_note="not when cross-compiling"],
	[test $tt_python = yes], [
		tt_torch_note="no PyTorch, or not its headers and Python's"
		tt_torch_header=torch/csrc/distributed/c10d/ProcessGroup.hpp
		tt_include=`"$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))'`
		for tt_try in /usr/include $TORCH_INCLUDE; do
			AS_IF([test -f $tt_try/$tt_torch_header && test -f $tt_include/Python.h &&
				"$PYTHON" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("torch") is None)'],
				[tt_torch=yes; tt_torch_note="yes, with the headers of $tt_try"
				 TORCH_CPPFLAGS="$TORCH_CPPFLAGS -I$tt_include -I$tt_try"
				 TORCH_CPPFLAGS="$TORCH_CPPFLAGS -I$tt_try/torch/csrc/api/include"
				 break])
		done
	])
AS_IF([test "x$with_torch" = xyes && test $tt_torch = no],
	[AC_MSG_ERROR([--with-torch: $tt_torch_note; install python3-torch, libtorch-dev, python3-dev and pybind11-dev])])
AM_CONDITIONAL([HAVE_TORCH], [test $tt_torch = yes && test "x$with_sanitizer" = xno &&
	test "x$enable_shared" != xno])
