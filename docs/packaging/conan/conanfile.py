"""Plumb for Conan 2. From the root of the sources: conan create docs/packaging/conan"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class PlumbConan(ConanFile):
    name = "plumb"
    license = "Apache-2.0"
    description = "Tensors and convolution on any machine, held against a plumb line"
    topics = ("convolution", "tensors", "cuda", "hpc")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False], "program": [True, False]}
    default_options = {"shared": True, "cuda": False, "program": False}

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        self.version = re.search(
            r"project\(plumb VERSION ([0-9.]+)", load(self, os.path.join(self._root, "CMakeLists.txt"))
        ).group(1)

    def export_sources(self):
        copy(self, "*", self._root, self.export_sources_folder,
             excludes=("build/*", ".git/*", ".git", "docs/*", "tests/*"))

    def requirements(self):
        # None of them is seen by who uses Plumb.
        self.requires("eigen/[>=3.3 <4]", visible=False)
        self.requires("fmt/[>=9]", visible=False, options={"header_only": True})
        if self.options.program:
            self.requires("cli11/[>=2.1]", visible=False)
            self.requires("nlohmann_json/[>=3.11]", visible=False)
            self.requires("zlib/[>=1.2.11 <2]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["PLUMB_CUDA"] = bool(self.options.cuda)
        toolchain.cache_variables["PLUMB_APPS"] = bool(self.options.program)
        toolchain.cache_variables["PLUMB_TESTS"] = False
        toolchain.cache_variables["PLUMB_MPI"] = "OFF"  # built for one MPI, which Conan does not choose
        toolchain.cache_variables["PLUMB_FORTRAN"] = False  # a .mod is one compiler's alone
        toolchain.cache_variables["PLUMB_KOKKOS"] = False  # not one that happens to lie about
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # Plumb's own plumb-config.cmake serves, and says of each component whether it is there.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "plumb"))
        self.cpp_info.set_property("pkg_config_name", "plumb")
        self.cpp_info.libs = ["plumb"]
        if not self.options.shared:
            self.cpp_info.defines = ["PLUMB_API="]
            self.cpp_info.system_libs = ["gomp", "dl"]
