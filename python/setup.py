"""Builds the package with libkvreel.so inside: KVREEL_LIB if set, else ../build/libkvreel.so, which `make lib` builds."""

import os
import pathlib
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

LIBRARY = pathlib.Path(os.environ.get("KVREEL_LIB") or
                       pathlib.Path(__file__).resolve().parent.parent / "build" / "libkvreel.so")


class WithLibrary(build_py):
    def run(self):
        super().run()
        if LIBRARY.exists():
            shutil.copy(LIBRARY, pathlib.Path(self.build_lib) / "kvreel" / "libkvreel.so")


class ForThisMachine(Distribution):
    def has_ext_modules(self):
        return LIBRARY.exists()


class AnyPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(distclass=ForThisMachine, cmdclass={"build_py": WithLibrary, "bdist_wheel": AnyPython})
