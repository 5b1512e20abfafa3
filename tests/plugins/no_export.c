/* no_export.c - a shared object, but no plug-in. */
const int kvr_test_not_a_plugin = 1;
