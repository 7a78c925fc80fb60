"""Builds tests/package against the package, as anybody's project would, and runs it."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class PlumbTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        plumb = self.dependencies["plumb"]
        toolchain.cache_variables["PLUMB_VERSION"] = str(plumb.ref.version)
        toolchain.cache_variables["PLUMB_COMPONENTS"] = "cuda" if plumb.options.get_safe("cuda") else ""
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join("..", "..", "..", "..", "tests", "package"))
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "uses_plumb"), env="conanrun")
