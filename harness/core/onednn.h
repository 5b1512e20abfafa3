/* onednn.h - oneDNN keeps to the instruction set that was chosen by name.
 *
 *     kvr_onednn_limit();    before the first call of oneDNN that computes
 *
 * With --cpu or KVREEL_CPU the program behaves as on a CPU that has no more, its library's products
 * included. Where nothing was chosen by name oneDNN uses what there is (and DNNL_MAX_CPU_ISA). The
 * library takes a limit once: what is forced afterwards changes our own loops alone. */
#ifndef KVR_CORE_ONEDNN_H
#define KVR_CORE_ONEDNN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Does something at the first call alone. From any thread. */
void kvr_onednn_limit(void);

#ifdef __cplusplus
}
#endif
#endif
