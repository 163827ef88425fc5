# SPDX-License-Identifier: BSD-3-Clause
"""
Recipe for Spack 1.0 and later: copy it to packages/tutti/ of a repository of your own (spack repo
create), then, in the sources of tutti: spack dev-build tutti@main
"""

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Tutti(AutotoolsPackage):
    """Communication runtime for distributed training: collectives, messages, one-sided access and
    a parameter server over shared memory, RDMA (verbs) and libfabric."""

    version("main")

    license("BSD-3-Clause")

    variant("verbs", default=True, description="Build the transport verbs")
    variant("ofi", default=True, description="Build the transport over libfabric")
    variant("examples", default=True, description="Build the training examples on digits")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf@2.71:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libsodium")
    depends_on("xxhash@0.8:")
    depends_on("jansson")
    depends_on("numactl")
    depends_on("rdma-core@34:", when="+verbs")
    depends_on("libfabric@1.17:", when="+ofi")
    depends_on("zlib-api", when="+examples")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        # What configure would otherwise take from the system, without Spack knowing
        system = ["openblas", "python", "torch", "mpi-preload"]
        args = [f"--without-{name}" for name in system]
        return args + self.with_or_without("verbs") + self.with_or_without("ofi")
