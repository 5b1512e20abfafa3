/* threads.h - sets the number of OpenMP threads and asserts that the runtime provides them.
 *
 * The runtime may provide fewer threads (OMP_THREAD_LIMIT, a build without OpenMP). A test that
 * compares results of several thread counts would then compare a result with itself. */
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
