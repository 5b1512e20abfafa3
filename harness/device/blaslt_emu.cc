/* blaslt_emu.cc - blaslt.h where kernels are emulated: there is no such library. */
#include "harness/device/blaslt_none.cuh"
