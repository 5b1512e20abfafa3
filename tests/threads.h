/* threads.h - a number of OpenMP threads that is really there.
 *
 * What compares the results of several numbers of threads would compare one with itself where the runtime gives fewer
 * (OMP_THREAD_LIMIT, a build without OpenMP). */
#ifndef KVR_TESTS_THREADS_H
#define KVR_TESTS_THREADS_H

#include <check.h>
#include <omp.h>

static inline void set_threads(int n)
{
    int team = 0;

    omp_set_num_threads(n);
#pragma omp parallel
#pragma omp single
    team = omp_get_num_threads();
    ck_assert_msg(team == n, "OpenMP gives %d threads instead of %d", team, n);
}

#endif
