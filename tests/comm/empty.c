/* empty.c - a library that is no module, for test_comm_load. */
extern int nothing;

int nothing;
