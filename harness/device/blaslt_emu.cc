/* blaslt_emu.cc - blaslt.h for emulated kernels: unavailable. */
#include "harness/device/blaslt_none.cuh"
