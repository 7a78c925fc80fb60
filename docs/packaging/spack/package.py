# Copyright The Plumb authors. Licensed under the Apache License 2.0.

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Plumb(CMakePackage, CudaPackage):
    """Tensors and convolution on any machine, chosen at run time: CUDA kernels written by hand, Eigen
    and OpenMP on the CPU, each held against one oracle in double."""

    # There is no public place for Plumb's sources yet: `spack develop -p <sources> plumb@main`, or the
    # repository's address here.
    homepage = "https://example.org/plumb"
    git = "https://example.org/plumb.git"

    license("Apache-2.0", checked_by="plumb")

    version("main", branch="main")

    variant("shared", default=True, description="Shared library with backends as modules")
    variant("program", default=True, description="The program plumb")
    variant("fortran", default=False, description="The Fortran module")
    variant("kokkos", default=False, description="The Kokkos backend")
    variant("mpi", default=False, description="libplumb_mpi: convolution across ranks")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("eigen@3.3:3")
    depends_on("fmt@9:")
    depends_on("cli11@2.1:", when="+program")
    depends_on("nlohmann-json@3.11:", when="+program")
    depends_on("zlib-api", when="+program")
    depends_on("cuda@12.1:", when="+cuda")
    depends_on("kokkos@3.4:", when="+kokkos")
    depends_on("mpi@3:", when="+mpi")

    conflicts("%gcc@:11", msg="Plumb is C++20: GCC 12 or newer")
    conflicts("cuda_arch=none", when="+cuda", msg="name one: cuda_arch=90")
    conflicts("platform=darwin", msg="modules are found by ELF's rules")
    conflicts("platform=windows", msg="modules are found by ELF's rules")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("PLUMB_CUDA", "cuda"),
            self.define_from_variant("PLUMB_APPS", "program"),
            self.define_from_variant("PLUMB_FORTRAN", "fortran"),
            self.define_from_variant("PLUMB_KOKKOS", "kokkos"),
            self.define("PLUMB_MPI", "ON" if self.spec.satisfies("+mpi") else "OFF"),
            self.define("PLUMB_TESTS", self.run_tests),
        ]
        if self.spec.satisfies("+cuda"):
            architectures = ["90a" if arch == "90" else arch
                             for arch in self.spec.variants["cuda_arch"].value]
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", architectures))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        if self.spec.satisfies("+program"):
            Executable(self.prefix.bin.plumb)("info")
