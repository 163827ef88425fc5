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
