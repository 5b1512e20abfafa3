/* machine.h - what a measured time was taken on: the processor, its kernels, its other work. */
#ifndef KVR_CORE_MACHINE_H
#define KVR_CORE_MACHINE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processor's name as the system tells it, "unknown" otherwise. Returns buf [n]. */
const char *kvr_cpu_name(char *buf, size_t n);

/* Processes that ran or waited to run, over the last minute; negative: the system does not say. */
double kvr_machine_load(void);

/* "CPU NAME, kernels avx2 (forced), load 0.31": the line beside every printed time. */
const char *kvr_machine_text(char *buf, size_t n);

#ifdef __cplusplus
}
#endif
#endif
