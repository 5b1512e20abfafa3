/* reproduce_papers.h - one function per paper, which adds the paper's published figures to the
 * comparison table. */
#ifndef KVR_REPRODUCE_REPRODUCE_PAPERS_H
#define KVR_REPRODUCE_REPRODUCE_PAPERS_H

#include "harness/report/reproduce/reproduce_rows.h"

enum kvr_status kvr_reproduce_study33(struct kvr_repro *r);
enum kvr_status kvr_reproduce_jensen(struct kvr_repro *r);
enum kvr_status kvr_reproduce_jensen_llm(struct kvr_repro *r);
enum kvr_status kvr_reproduce_pafu(struct kvr_repro *r);

#endif
