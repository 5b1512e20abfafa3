/* fake_nvrtc.c - a library by NVRTC's name (the Makefile sets it), which tests/plugins/fake_cudnn.c looks
 * for. No plug-in. */
__attribute__((visibility("default"))) extern const int kvr_fake_nvrtc;
const int kvr_fake_nvrtc = 12;
