/* no_export.c - a shared object that is not a plug-in: it lacks the exported symbol. */
const int kvr_test_not_a_plugin = 1;
