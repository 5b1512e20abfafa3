/* fake_nvrtc.c - an empty library with NVRTC's soname, libnvrtc.so.12, which the Makefile sets.
 * tests/plugins/fake_cudnn.c checks whether it is loaded. It is not a kvreel plug-in. */
__attribute__((visibility("default"))) extern const int kvr_fake_nvrtc;
const int kvr_fake_nvrtc = 12;
