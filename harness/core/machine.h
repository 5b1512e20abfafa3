/* machine.h - what a measured time was taken on: the processor, its kernels, its other work. */
#ifndef KVR_CORE_MACHINE_H
#define KVR_CORE_MACHINE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The processor's name as the system tells it, with family, model and stepping behind it, because
 * clouds give several processors one name: "NAME (6/85/7)". "unknown" otherwise. Returns buf [n].
 */
const char *kvr_cpu_name(char *buf, size_t n);

/* Processes that ran or waited to run, over the last minute; negative: the system does not say. */
double kvr_machine_load(void);

/* "CPU NAME, kernels avx2 (forced), load 0.31": the line beside every printed time. */
const char *kvr_machine_text(char *buf, size_t n);

/* Who the machine is, a fact at a time: cpu_vendor, cpu_family, cpu_model, cpu_stepping, cpu_isa,
 * kernels, cache_l1d, cache_l2, cache_l3, governor, ... What the system does not tell is
 * "unknown"; where frequencies cannot be steered the governor is "none". A fact of another value
 * is another machine: its times are not compared with this one's. Beside them what of the machine
 * this process and its children may use, as a batch system or taskset(1) left it: cpus, the NUMA
 * nodes these lie in (cpu_nodes), and those that memory may come from (memory_nodes): "0-3,8". */
typedef void kvr_fact_fn(void *ctx, const char *name, const char *value);
void kvr_machine_facts(kvr_fact_fn *fn, void *ctx);

/* Clock of the fastest processor now, in MHz; 0: the system does not say. */
double kvr_machine_mhz(void);

#ifdef __cplusplus
}
#endif
#endif
