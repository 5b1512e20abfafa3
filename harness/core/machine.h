/* machine.h - facts about the machine that are stored with measured times, such as the processor,
 * the load, and the instruction set of kvreel's CPU kernels. */
#ifndef KVR_CORE_MACHINE_H
#define KVR_CORE_MACHINE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Processor name with family, model and stepping, as in "NAME (6/85/7)", or "unknown". The numbers
 * are needed because cloud providers give several processors the same name. Returns buf [n]. */
const char *kvr_cpu_name(char *buf, size_t n);

/* Load average over the last minute, or a negative number if it is unknown. */
double kvr_machine_load(void);

/* Description of the machine that is printed with measured times, as in "CPU NAME, kernels avx2
 * (forced), load 0.31". */
const char *kvr_machine_text(char *buf, size_t n);

/* Calls fn(ctx, name, value) for each fact that identifies the machine. Examples of facts are
 * cpu_vendor, cpu_model, cpu_isa (instruction set extensions), kernels (selected variant of the CPU
 * kernels), cache_l2 and governor (CPU frequency governor). The value of an unknown fact is
 * "unknown"; the governor of a machine without frequency scaling begins with "none". Times of
 * machines that differ in any fact are not compared. The facts cpus, cpu_nodes and memory_nodes are
 * lists of numbers such as "0-3,8". They state which CPUs, NUMA nodes of these CPUs, and NUMA nodes
 * of memory this process may use. A batch system or taskset(1) can limit them. */
typedef void kvr_fact_fn(void *ctx, const char *name, const char *value);
void kvr_machine_facts(kvr_fact_fn *fn, void *ctx);

/* Highest current clock frequency of any logical CPU, in MHz, or 0 if it is unknown. */
double kvr_machine_mhz(void);

#ifdef __cplusplus
}
#endif
#endif
