"""Takes the library that `make lib` has built into the package, where there is one."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class WithLibrary(build_py):
    def run(self):
        super().run()
        built = pathlib.Path(__file__).resolve().parent.parent / "build" / "libkvreel.so"
        if built.exists():
            shutil.copy(built, pathlib.Path(self.build_lib) / "kvreel" / "libkvreel.so")


setup(cmdclass={"build_py": WithLibrary})
