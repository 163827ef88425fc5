# SPDX-License-Identifier: BSD-3-Clause
cmakedir = $(libdir)/cmake/tutti
nodist_cmake_DATA = packaging/cmake/tuttiConfig.cmake packaging/cmake/tuttiConfigVersion.cmake

EXTRA_DIST += .containerignore packaging/Containerfile packaging/spack/package.py \
	packaging/check.sh packaging/root.sh packaging/abi.sh packaging/libtutti.abi \
	debian/changelog debian/control debian/copyright debian/rules debian/source/format \
	debian/libtutti0.install debian/libtutti0.symbols debian/libtutti0.lintian-overrides \
	debian/libtutti-dev.install debian/tutti-bin.install debian/tutti-doc.install \
	debian/python3-tutti.install debian/python3-tutti-torch.install \
	debian/tutti-openmpi.install debian/tutti-openmpi.lintian-overrides \
	debian/tutti-openmpi.triggers debian/tutti-mpich.install \
	debian/tutti-mpich.lintian-overrides debian/tutti-mpich.triggers \
	debian/tests/control debian/tests/hello debian/tests/mpi debian/tests/python \
	debian/tests/torch

# The packages of debian/, built, looked at by lintian, installed into roots of their own and tried.
package-check: distdir-for-packages
	TT_SRC=$(abs_top_srcdir) TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/packaging/check.sh
distdir-for-packages:
	rm -rf package && mkdir package
	$(MAKE) $(AM_MAKEFLAGS) distdir distdir=package/$(PACKAGE)-$(VERSION)
# Describes the binary interface again, after an intended change of it.
abi-update: all
	TT_SRC=$(abs_top_srcdir) TT_BUILD=$(abs_top_builddir) $(SHELL) $(srcdir)/packaging/abi.sh \
		update
.PHONY: package-check distdir-for-packages abi-update
