/* machine.h - facts about the machine that are stored with measured times: processor, kernels,
 * load. */
#ifndef KVR_CORE_MACHINE_H
#define KVR_CORE_MACHINE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Processor name with family, model and stepping, "NAME (6/85/7)", since cloud providers give
 * several processors one name; else "unknown". Returns buf [n]. */
const char *kvr_cpu_name(char *buf, size_t n);

/* Load average over the last minute; negative: unknown. */
double kvr_machine_load(void);

/* "CPU NAME, kernels avx2 (forced), load 0.31": printed with every time. */
const char *kvr_machine_text(char *buf, size_t n);

/* Identity of the machine, one fact at a time: cpu_vendor, cpu_family, cpu_model, cpu_stepping,
 * cpu_isa, kernels, cache_l1d, cache_l2, cache_l3, governor, ... Unknown facts are "unknown";
 * without frequency scaling the governor is "none". Times of machines that differ in any fact are
 * not compared. Also the resources this process and its children may use, as set by a batch system
 * or taskset(1): cpus, their NUMA nodes (cpu_nodes), and the nodes for memory (memory_nodes):
 * "0-3,8". */
typedef void kvr_fact_fn(void *ctx, const char *name, const char *value);
void kvr_machine_facts(kvr_fact_fn *fn, void *ctx);

/* Current clock of the fastest processor in MHz; 0: unknown. */
double kvr_machine_mhz(void);

#ifdef __cplusplus
}
#endif
#endif
